/**
 * Pods that send, and are sent to, from the moment their links are up: no packet passes that a policy forbids, and none is held that is
 * allowed. TORTIE_FIRST_PACKETS says how many pods of each kind; 500 take some 15 minutes on two idle cores.
 */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { callAgent } from "../../support/agent-calls.ts";
import { dualIpam, localConf } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import type { CniRun, Pod } from "../../support/node.ts";
import { type AttachedPod, eventually, PolicyAgentNode, policy } from "../../support/policy-agent.ts";
import { reach } from "../../support/policy-node.ts";
import { seededRandom } from "../../support/seeded-random.ts";

const TIMES = Number(process.env.TORTIE_FIRST_PACKETS ?? 12);
/** Pods that are attached at once. */
const TOGETHER = 6;
const FORBIDDEN = 81;
const ALLOWED = 80;
const LISTENED = 5353;
const NEW_PODS = "10.244.200.0/24";
/** A connection ends it sooner. */
const SECONDS = 60;
/** How long a pod that nobody opens tries. */
const CLOSED_SECONDS = 1;
/** The agent is away so long after pods have begun to be attached. */
const AWAY_MS = 300;
/** The agent is killed somewhere within the time that the ADDs take. */
const KILL_WITHIN_MS = 200;

jest.setTimeout(7_200_000);

const world = fresh(PolicyAgentNode.create);

interface Outcome {
  readonly address: string;
  readonly isConnected: boolean;
  /** Of the SYN. */
  readonly retransmissions: number;
  /** Of these after the ADD was answered. */
  readonly late: number;
  readonly sent: number;
  readonly got: number;
}

interface Program extends Disposable {
  tell(command: unknown): void;
  /** A line of its output. */
  next(): Promise<string>;
}

/** Starts test/support/programs/first-packets.py. */
function start(on: Pod | undefined, ...words: readonly string[]): Program {
  const [file = "", ...args] = world.node.commandLine(["/usr/bin/python3", "test/support/programs/first-packets.py", ...words], {}, on);
  const child = spawn(file, args, { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    tell: (command) => void child.stdin.write(`${JSON.stringify(command)}\n`),
    next: async () => String((await lines.next()).value),
    [Symbol.dispose]: () => void child.kill("SIGKILL"),
  };
}

interface NewPod {
  readonly pod: Pod;
  readonly address: string;
  readonly call: { readonly pod: Pod; readonly containerId: string; readonly args: string };
}

async function sandbox(number: number): Promise<NewPod> {
  const name = `new${number}`;
  const pod = await world.node.addPod(name);
  const address = `10.244.200.${(number % 200) + 1}`;
  return { pod, address, call: { pod, containerId: `cid-${name}`, args: `${world.args(name, { labels: { app: "new" } })};IP=${address}` } };
}

interface Programs {
  readonly pods: Program;
  readonly flood: Program;
}

/** Attaches pods that send at once and are flooded from the client. @param meanwhile runs beside their ADDs */
async function attachTogether(news: readonly NewPod[], { pods, flood }: Programs, conf: object, meanwhile: () => Promise<void>) {
  flood.tell(news.map(({ address }) => address));
  await flood.next();
  for (const { pod, address } of news) pods.tell({ netns: pod.netnsPath, address });
  for (const _ of news) expect(await pods.next()).toContain('"ready"');
  const adds = news.map(async ({ call, address }) => {
    const run = await world.node.cni("ADD", { ...call, conf });
    pods.tell({ opened: address });
    return run;
  });
  const [added] = await Promise.all([Promise.all(adds), meanwhile()]);
  // A pod whose ADD was refused would wait for its address for ever.
  if (added.some(({ exit }) => exit !== 0)) pods.tell({ end: true });
  const outcomes: Outcome[] = [];
  for (const _ of news) outcomes.push(JSON.parse(await pods.next()));
  return { added, outcomes };
}

/** Notes in the server's namespace which pods' packets come to it: the kernel loses none of them, as a capture may. */
async function watchArrivals(server: AttachedPod): Promise<void> {
  const stdin = `table inet arrivals {
    set seen { type ipv4_addr . inet_proto; flags dynamic; size 65535; }
    set other { type ipv4_addr . inet_proto; flags dynamic; size 65535; }
    chain incoming {
      type filter hook prerouting priority raw;
      ip saddr ${NEW_PODS} tcp dport ${ALLOWED} add @seen { ip saddr . ip protocol } accept
      ip saddr ${NEW_PODS} udp dport ${FORBIDDEN} add @seen { ip saddr . ip protocol } accept
      ip saddr ${NEW_PODS} add @other { ip saddr . ip protocol }
    }
  }\n`;
  const { exit, stderr } = await world.node.run(["/usr/sbin/nft", "-f", "-"], { stdin }, server.pod);
  expect({ exit, stderr }).toEqual({ exit: 0, stderr: "" });
}

/** What has come to the server since the last question, as "ADDRESS SET PROTOCOL". */
async function arrivalsAt({ pod }: AttachedPod): Promise<readonly string[]> {
  const nft = (...args: readonly string[]) => world.node.run(["/usr/sbin/nft", ...args], {}, pod);
  const found: string[] = [];
  for (const set of ["seen", "other"]) {
    const { stdout } = await nft("list", "set", "inet", "arrivals", set);
    found.push(...[...stdout.matchAll(/([\d.]+) \. (\w+)/g)].map(([, address, protocol]) => `${address} ${set} ${protocol}`));
    await nft("flush", "set", "inet", "arrivals", set);
  }
  return found;
}

interface Seen extends Outcome {
  /** Kinds of packets of the pod that have come to the server. */
  readonly arrived: ReadonlySet<string>;
  readonly add: CniRun;
  /** Whether the connection needed no more than one retransmission after the ADD's answer. */
  readonly isSoon: boolean;
}

interface Kind {
  /** Runs before some pods are attached. */
  readonly before?: () => Promise<void>;
  /** Runs beside the ADDs of some pods; the number is that of their first. */
  readonly meanwhile?: (number: number) => Promise<void>;
  /** A plugin attaches the pods that has never heard of the agent. */
  readonly isIgnorant?: boolean;
}

/**
 * Plays all pods of a kind. One whose connection came late is played again, by itself, as a busy machine makes one late too.
 *
 * @param judge what must be so for each of them
 */
async function play(kind: Kind, [server, client]: readonly [AttachedPod, AttachedPod], judge: (seen: Seen) => void): Promise<void> {
  const { before = async () => {}, meanwhile = async () => {}, isIgnorant = false } = kind;
  const conf = isIgnorant ? localConf(world.node, { ipam: dualIpam("46") }) : { ...world.conf, agent_wait_seconds: 30 };
  const seconds = isIgnorant ? CLOSED_SECONDS : SECONDS;
  using pods = start(undefined, "pods", server.address[4], ...[FORBIDDEN, ALLOWED, LISTENED, seconds].map(String));
  using flood = start(client.pod, "flood", String(LISTENED));
  let [played, packets, repeated] = [0, 0, 0];
  const again = new Map<number, number>();
  while (played < TIMES + repeated) {
    const isAgain = played >= TIMES;
    const numbers = Array.from({ length: isAgain ? 1 : Math.min(TOGETHER, TIMES - played) }, (_, at) => played + at);
    const news = await Promise.all(numbers.map(sandbox));
    await arrivalsAt(server);
    await before();
    const { added, outcomes } = await attachTogether(news, { pods, flood }, conf, () => meanwhile(played));
    const taken = await arrivalsAt(server);
    for (const [at, { address }] of news.entries()) {
      const [outcome, add] = [outcomes.find((one) => one.address === address), added[at]];
      if (outcome === undefined || add === undefined) throw new Error(`nothing of ${address}`);
      const arrived = new Set(taken.filter((one) => one.startsWith(`${address} `)).map((one) => one.slice(address.length + 1)));
      const isLate = outcome.late > 1;
      if (isLate && !isAgain) repeated++;
      judge({ ...outcome, arrived, add, isSoon: !isLate || !isAgain });
      packets += outcome.sent;
      again.set(outcome.retransmissions, (again.get(outcome.retransmissions) ?? 0) + 1);
    }
    for (const { pod, call } of news) {
      if (isIgnorant) expect(await world.node.cni("DEL", { ...call, conf })).toMatchObject({ exit: 0 });
      else expect((await callAgent(world.agent, "del", world.conf, call)).status).toBe(200);
      await world.node.removePod(pod);
    }
    pods.tell({ end: true });
    played += news.length;
  }
  const counts = [...again].sort().map(([times, count]) => `${count} with ${times}`);
  process.stdout.write(`${played} pods sent ${packets} datagrams; ${repeated} again; retransmissions of the SYN: ${counts.join(", ")}\n`);
}

async function places(): Promise<readonly [AttachedPod, AttachedPod]> {
  const [server, client] = [await world.attach("server", { labels: { app: "server" } }), await world.attach("client")];
  await server.prober.ask("serve", { protocol: "tcp", port: ALLOWED });
  await watchArrivals(server);
  return [server, client];
}

/** Gives the server a policy that lets in what is looked for, and new pods one that lets out one port alone. */
async function select([server, client]: readonly [AttachedPod, AttachedPod]): Promise<void> {
  const egress = [{ ports: [{ protocol: "TCP", port: ALLOWED }] }];
  world.write("new", policy("new", { podSelector: { matchLabels: { app: "new" } }, policyTypes: ["Ingress", "Egress"], egress }));
  const ports = [{ port: ALLOWED }, { protocol: "UDP", port: FORBIDDEN }];
  world.write("marker", policy("marker", { podSelector: { matchLabels: { app: "server" } }, ingress: [{ ports }] }));
  expect(await eventually("timeout", () => reach(client, server, "tcp", 82))).toBe("timeout");
}

const STATES: readonly (readonly [string, Kind])[] = [
  ["is present", {}],
  [
    "is killed and starts again",
    {
      meanwhile: async (number) => {
        await Bun.sleep(seededRandom(number + 1)() * KILL_WITHIN_MS);
        await world.agent.kill();
        await world.agent.restart();
      },
    },
  ],
  [
    "is away when their ADDs begin, and starts while they wait",
    {
      before: () => world.agent.kill(),
      meanwhile: async () => {
        await Bun.sleep(AWAY_MS);
        await world.agent.restart();
      },
    },
  ],
];

describe.each(STATES)("the first packets of pods while the agent %s", (_, kind) => {
  it("are judged from the first one on where a policy selects the pods", async () => {
    const both = await places();
    await select(both);
    await play(kind, both, ({ isConnected, isSoon, sent, got, arrived, add }) => {
      const seen = { exit: add.exit, isConnected, isSoon, isSending: sent > 0, got, arrived: [...arrived] };
      expect(seen).toEqual({ exit: 0, isConnected: true, isSoon: true, isSending: true, got: 0, arrived: ["seen tcp"] });
    });
    for (const pod of both) await world.detach(pod);
  });

  it("pass where none does", async () => {
    const both = await places();
    await play(kind, both, ({ isConnected, isSoon, got, arrived, add }) => {
      const seen = { exit: add.exit, isConnected, isSoon, isReached: got > 0, arrived: [...arrived].sort() };
      expect(seen).toEqual({ exit: 0, isConnected: true, isSoon: true, isReached: true, arrived: ["seen tcp", "seen udp"] });
    });
    for (const pod of both) await world.detach(pod);
  });
});

it.each([
  ["a policy selects them", select],
  ["none does", async () => {}],
] as const)(
  "no packet of a pod, nor to one, passes when a plugin attached it that knows no agent, while this is away: %s",
  async (_, prepare) => {
    const both = await places();
    await prepare(both);
    await world.agent.kill();
    await play({ isIgnorant: true }, both, ({ sent, got, isConnected, arrived, add }) => {
      const seen = { exit: add.exit, isSending: sent > 0, got, isConnected, arrived: [...arrived] };
      expect(seen).toEqual({ exit: 0, isSending: true, got: 0, isConnected: false, arrived: [] });
    });
    await world.agent.restart();
    expect(await reach(both[1], both[0], "tcp", ALLOWED)).toBe("ok");
    for (const pod of both) await world.detach(pod);
  },
);
