/**
 * What policy costs an ADD: the same call at agents of one node each, without policy, with a pod that no policy selects and with one that a
 * policy closes in both directions, in turn; and bursts.
 */
import { callAgent } from "../../support/agent-calls.ts";
import type { Pod } from "../../support/node.ts";
import { PolicyAgentNode, policy } from "../../support/policy-agent.ts";
import { median, pairedRatio, row } from "../statistics.ts";

const ROUNDS = 60;
const BURSTS = 5;
const BURST_SIZES = [60, 110];
/** Each agent has served 480 ADDs and DELs before, as one in use would have. */
const WARM_UPS = { rounds: 8, size: 60 };
const CLOSED = {
  podSelector: { matchLabels: { app: "closed" } },
  policyTypes: ["Ingress", "Egress"],
  ingress: [{ from: [{ podSelector: {} }], ports: [{ port: 80 }] }],
  egress: [{ to: [{ namespaceSelector: {} }] }],
};

interface Contender {
  readonly name: string;
  readonly app: string;
  readonly world: PolicyAgentNode;
  readonly pods: readonly Pod[];
  readonly single: number[];
  readonly bursts: Map<number, number[]>;
}

async function contender(stack: AsyncDisposableStack, name: string, app: string, args: readonly string[]): Promise<Contender> {
  const world = stack.use(await PolicyAgentNode.create([...args, "--max-endpoints", "4095"]));
  world.write("closed", policy("closed", CLOSED));
  // Has another pod of its kind, as a pod of a Deployment does: its class of peers is there.
  await world.attach("neighbour", { labels: { app } });
  const pods: Pod[] = [];
  for (let at = 0; at < Math.max(...BURST_SIZES); at++) pods.push(await world.node.addPod(`p${at}`));
  return { name, app, world, pods, single: [], bursts: new Map(BURST_SIZES.map((size) => [size, []])) };
}

/** Serves the verb for so many pods at once. @returns milliseconds until the last answer */
async function took({ world, app, pods }: Contender, verb: "add" | "del", count: number): Promise<number> {
  const begun = performance.now();
  const answers = pods.slice(0, count).map((pod, at) => {
    const args = world.args(`p${at}`, { labels: { app } });
    return callAgent(world.agent, verb, world.conf, { pod, containerId: `cid-${at}`, args });
  });
  for (const { status, text } of await Promise.all(answers)) if (status !== 200) throw new Error(`${verb}: ${text}`);
  return performance.now() - begun;
}

async function round(one: Contender, count: number, into: number[] | undefined): Promise<void> {
  into?.push(await took(one, "add", count));
  await took(one, "del", count);
}

/** Prints ADDs one after the other and bursts of them, each beside the agent without policy. */
export async function addsUnderPolicy(): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const contenders = [
    await contender(stack, "without policy", "open", ["--policy", "off"]),
    await contender(stack, "no policy selects the pod", "open", []),
    await contender(stack, "closed in both directions", "closed", []),
  ];
  for (let warm = 0; warm < WARM_UPS.rounds; warm++) for (const one of contenders) await round(one, WARM_UPS.size, []);
  for (let at = 0; at < ROUNDS; at++) for (const one of contenders) await round(one, 1, one.single);
  for (const size of BURST_SIZES) {
    for (let at = 0; at < BURSTS; at++) for (const one of contenders) await round(one, size, one.bursts.get(size));
  }
  const widths = [28, 10, 10, 8];
  console.log(row(["milliseconds", "least", "median", "ratio"], widths));
  for (const [what, series] of [
    ["ADD", ({ single }: Contender) => single],
    ...BURST_SIZES.map((size) => [`${size} ADDs`, ({ bursts }: Contender) => bursts.get(size) ?? []] as const),
  ] as const) {
    for (const one of contenders) {
      const [own, base] = [series(one), contenders[0] === undefined ? [] : series(contenders[0])];
      console.log(row([`${what}, ${one.name}`.slice(0, 40), Math.min(...own), median(own), pairedRatio(own, base)], widths));
    }
  }
}
