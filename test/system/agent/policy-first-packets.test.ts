/**
 * A pod that sends, and is sent to, from the moment its link is up: no packet passes that its policy forbids, and none is held that it
 * allows. TORTIE_FIRST_PACKETS says how many pods of each kind; 500 take some ten minutes.
 */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { callAgent } from "../../support/agent-calls.ts";
import { fresh } from "../../support/fixtures.ts";
import { type AttachedPod, eventually, PolicyAgentNode, policy } from "../../support/policy-agent.ts";
import { reach } from "../../support/policy-node.ts";

const TIMES = Number(process.env.TORTIE_FIRST_PACKETS ?? 12);
const PROGRAM = "test/support/programs/first-packets.py";
const FORBIDDEN = 81;
const ALLOWED = 80;
const LISTENED = 5353;
/** A connection ends it sooner. */
const SECONDS = 20;

const world = fresh(PolicyAgentNode.create);

interface Outcome {
  /** Of the SYN; `null`: there was no connection. */
  readonly retransmissions: number | null;
  readonly sent: number;
  readonly got: number;
}

interface Program extends Disposable {
  /** Lines of its output. */
  next(): Promise<string>;
}

function start(argv: readonly string[]): Program {
  const [file = "", ...args] = argv;
  const child = spawn(file, args, { stdio: ["ignore", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    next: async () => String((await lines.next()).value),
    [Symbol.dispose]: () => void child.kill("SIGKILL"),
  };
}

/** Attaches one pod that sends at once and is flooded from the client. @param meanwhile runs beside its ADD */
async function first(
  client: AttachedPod,
  server: AttachedPod,
  number: number,
  seconds: number,
  meanwhile: () => Promise<void>,
): Promise<Outcome> {
  const pod = await world.node.addPod(`new${number}`);
  const address = `10.244.200.${(number % 200) + 1}`;
  const args = `${world.args(`new${number}`, { labels: { app: "new" } })};IP=${address}`;
  const containerId = `cid-new${number}`;
  const ports = [FORBIDDEN, ALLOWED, LISTENED].map(String);
  const run = (on: AttachedPod["pod"], ...words: readonly string[]) =>
    start(world.node.commandLine(["/usr/bin/python3", PROGRAM, ...words], {}, on));
  using program = run(pod, "pod", address, server.address[4], ...ports, String(seconds));
  using _ = run(client.pod, "flood", address, String(LISTENED));
  expect(await program.next()).toBe("ready");
  const call = { pod, containerId, args };
  const conf = { ...world.conf, agent: "auto", agent_wait_seconds: 30 };
  const [added] = await Promise.all([world.node.cni("ADD", { ...call, conf }), meanwhile()]);
  expect(added).toMatchObject({ exit: 0 });
  const outcome: Outcome = JSON.parse(await program.next());
  expect((await callAgent(world.agent, "del", world.conf, call)).status).toBe(200);
  await world.node.removePod(pod);
  return outcome;
}

/** Tells whether a connection came with one retransmission at most. */
function isSoon(retransmissions: number | null): boolean {
  return retransmissions !== null && retransmissions <= 1;
}

/** Datagrams of pods to the forbidden port of the server since the last question. */
async function forbiddenAt(server: AttachedPod): Promise<number> {
  const packets = await server.prober.ask<string[]>("taken");
  return packets.filter(
    (packet) => packet.startsWith("4") && packet.slice(18, 20) === "11" && Number.parseInt(packet.slice(44, 48), 16) === FORBIDDEN,
  ).length;
}

async function places(): Promise<readonly [AttachedPod, AttachedPod]> {
  const [server, client] = [await world.attach("server"), await world.attach("client")];
  await server.prober.ask("serve", { protocol: "tcp", port: ALLOWED });
  await server.prober.ask("capture", { device: "eth0" });
  return [server, client];
}

const NEW = { podSelector: { matchLabels: { app: "new" } } };
const STATES = [
  ["is present", async () => {}],
  [
    "is killed and starts again",
    async () => {
      await world.agent.kill();
      await world.agent.restart();
    },
  ],
] as const;

describe.each(STATES)("the first packets of a pod while the agent %s", (state, meanwhile) => {
  const times = state === "is present" ? TIMES : Math.ceil(TIMES / 3);

  it("are judged from the first one on where a policy selects the pod", async () => {
    const [server, client] = await places();
    const egress = [{ ports: [{ protocol: "TCP", port: ALLOWED }] }];
    world.write("new", policy("new", { ...NEW, policyTypes: ["Ingress", "Egress"], egress }));
    world.write(
      "marker",
      policy("marker", { podSelector: {}, ingress: [{ ports: [{ port: ALLOWED }, { protocol: "UDP", port: FORBIDDEN }] }] }),
    );
    expect(await eventually("timeout", () => reach(client, server, "tcp", 82))).toBe("timeout");
    for (let number = 0; number < times; number++) {
      const { retransmissions, sent, got } = await first(client, server, number, SECONDS, meanwhile);
      expect({ isConnected: isSoon(retransmissions), isSending: sent > 10, got }).toEqual({ isConnected: true, isSending: true, got: 0 });
      expect(await forbiddenAt(server)).toBe(0);
    }
    for (const pod of [server, client]) await world.detach(pod);
  }, 600_000);

  it("pass where none does", async () => {
    const [server, client] = await places();
    for (let number = 0; number < times; number++) {
      const { retransmissions, got } = await first(client, server, number, SECONDS, meanwhile);
      expect({ isConnected: isSoon(retransmissions), isReached: got > 0 }).toEqual({ isConnected: true, isReached: true });
      expect(await forbiddenAt(server)).toBeGreaterThan(0);
    }
    for (const pod of [server, client]) await world.detach(pod);
  }, 600_000);
});
