/**
 * A pod that does at once whatever it can in its own sandbox to keep the agent busy, and another node's agent with the same calls and a pod that
 * does nothing. Both run in the same time on the same machine, so what differs is what the pod did to its agent (S4, seven: 3).
 *
 * How long an agent stands still is told by the processor time of its main thread between a question and its answer: the rest of the time it
 * waits for a processor that somebody else has (on a machine with twenty who want two, nine tenths of it).
 */
import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { Agent } from "../../support/agent.ts";
import { callAgent } from "../../support/agent-calls.ts";
import { localConf } from "../../support/conf.ts";
import { Node, type Pod } from "../../support/node.ts";

const PROGRAM = resolve("test/support/programs/flooding-pod.py");
const ROUNDS = 5;
/** A table of 50,000 routes costs a second to read, and a flooded socket ten: the bounds below are far from both. */
const MOST_STANDSTILL = 4;
const MOST_ADD = 2;
const MOST_RESTART = 4;
const MOST_MEMORY = 1.5;
const MOST_PROCESSOR = 2;

/** What a sandbox is filled with, in the words of `ip -batch`. */
const FILLING = [
  "link add other0 type bridge",
  ...Array.from({ length: 50_000 }, (_, index) => `route add 10.${100 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}/32 dev eth0`),
  ...Array.from({ length: 4096 }, (_, index) => `addr add 10.99.${index >> 8}.${index & 255}/32 dev eth0`),
  ...Array.from(
    { length: 10_000 },
    (_, index) => `neigh add 10.98.${index >> 8}.${index & 255} lladdr 02:00:00:00:00:01 nud permanent dev eth0`,
  ),
];

interface Side {
  readonly agent: Agent;
  readonly conf: Record<string, unknown>;
  /** The one that is loud on one side and calm on the other. */
  readonly pod: Pod;
  readonly add: { readonly containerId: string; readonly pod: Pod };
  readonly addsMs: number[];
  /** Longest wait for an answer that needs no work, one a round. */
  readonly waits: Wait[];
}

interface Wait {
  readonly ms: number;
  /** What the agent's main thread did meanwhile. */
  readonly busyMs: number;
}

async function startSide(node: Node): Promise<Side> {
  const agent = await Agent.start(node, { args: ["--max-controller-interval", "1"] });
  const pod = await node.addPod();
  const conf = localConf(node, { cniVersion: "1.1.0" });
  const add = { containerId: "first", pod };
  const answer = await callAgent(agent, "add", conf, add);
  expect(answer).toMatchObject({ status: 200 });
  return { agent, conf: { ...conf, prevResult: answer.json }, pod, add, addsMs: [], waits: [] };
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const begun = performance.now();
  await work();
  return performance.now() - begun;
}

/** Processor time of the agent's main thread, in milliseconds (Documentation/scheduler/sched-stats.rst). */
function busyMsOf({ agent: { pid } }: Side): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ")[0]) / 1e6;
}

/** Runs the work, and asks meanwhile for what the agent can say at once. @returns the longest wait for it, and the busiest */
async function longestWait(side: Side, work: () => Promise<unknown>): Promise<Wait> {
  let isOver = false;
  let longest: Wait = { ms: 0, busyMs: 0 };
  const asked = (async () => {
    do {
      const before = busyMsOf(side);
      const ms = await timed(() => side.agent.request("GET", "/config"));
      longest = { ms: Math.max(longest.ms, ms), busyMs: Math.max(longest.busyMs, busyMsOf(side) - before) };
    } while (!isOver);
  })();
  try {
    await work();
  } finally {
    isOver = true;
    await asked;
  }
  return longest;
}

/** ADDs and DELs of other pods, with looks at the first one beside them. */
async function round(side: Side, number: number): Promise<void> {
  const { agent, conf, add } = side;
  const longest = await longestWait(side, async () => {
    // CHECK, and a second interface of the pod: whatever is in its way is looked for.
    for (const [verb, ifname] of [
      ["check", "eth0"],
      ["add", "eth0"],
      ["add", "net1"],
      ["del", "net1"],
    ] as const) {
      const look = callAgent(agent, verb, conf, { ...add, ifname });
      const call = { containerId: `other${number}-${verb}-${ifname}`, pod: await agent.node.addPod() };
      side.addsMs.push(await timed(async () => expect(await callAgent(agent, "add", conf, call)).toMatchObject({ status: 200 })));
      await look;
      expect(await callAgent(agent, "del", conf, call)).toMatchObject({ status: 200 });
    }
    // The sweep compares once a second.
    await Bun.sleep(1000);
  });
  side.waits.push(longest);
}

const median = (values: readonly number[]): number => [...values].sort((one, other) => one - other)[Math.floor(values.length / 2)] ?? 0;

/** Resident memory in KiB. */
const memoryOf = ({ agent: { pid } }: Side) => Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);

/** Processor time that the agent has used, in ticks of the kernel, which does not depend on what else the machine does. */
function processorTimeOf({ agent: { pid } }: Side): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
    .replace(/^.*\) /, "")
    .split(" ");
  return Number(fields[11]) + Number(fields[12]);
}

/** @param links that are renamed in a loop */
function startLoudness(node: Node, pod: Pod, links: readonly string[]): ChildProcess & Disposable {
  const [file = "", ...args] = node.commandLine(["/usr/bin/python3", PROGRAM, ...links], {}, pod);
  const child = spawn(file, args, { stdio: "ignore", detached: true });
  return Object.assign(child, {
    [Symbol.dispose]() {
      if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
    },
  });
}

describe("A pod that fills and shakes its own sandbox as fast as it can", () => {
  it("S4, seven: 3: holds up neither its agent, which may be restarted, nor the ADDs of others, and costs no memory", async () => {
    await using calmNode = await Node.create();
    await using loudNode = await Node.create();
    const [calm, loud] = [await startSide(calmNode), await startSide(loudNode)];
    await using _calmAgent = calm.agent;
    await using _loudAgent = loud.agent;
    const filled = await loudNode.run(["/usr/sbin/ip", "-batch", "-"], { stdin: FILLING.join("\n") }, loud.pod);
    expect(filled).toMatchObject({ exit: 0 });

    const used = new Map<Side, number>();
    const before = new Map([calm, loud].map((side) => [side, processorTimeOf(side)]));
    {
      using _loudness = startLoudness(loudNode, loud.pod, ["other0"]);
      for (let number = 0; number < ROUNDS; number++) await Promise.all([calm, loud].map((side) => round(side, number)));
      // The look at the loud one was not over at once.
      expect((await callAgent(loud.agent, "check", loud.conf, loud.add)).text).toContain("more than 4096");
    }
    const restartsMs = new Map<Side, number>();
    {
      using _loudness = startLoudness(loudNode, loud.pod, ["other0", "eth0"]);
      await Promise.all([calm, loud].map((side) => round(side, ROUNDS)));
      // Processor time of the agent that ends is left out: its successor counts from nothing.
      for (const side of [calm, loud]) used.set(side, processorTimeOf(side) - (before.get(side) ?? 0));
      await Promise.all([calm, loud].map(async (side) => restartsMs.set(side, await timed(() => side.agent.restart()))));
      await Promise.all([calm, loud].map((side) => round(side, ROUNDS + 1)));
      // The end of the loud one, whose namespace is still flooded.
      const dels = [calm, loud].map((side) => callAgent(side.agent, "del", side.conf, side.add));
      expect((await Promise.all(dels)).map(({ status }) => status)).toEqual([200, 200]);
    }

    const ratio = (of: (side: Side) => number) => of(loud) / of(calm);
    const figures = {
      standstill: ratio(({ waits }) => median(waits.map(({ busyMs }) => busyMs))),
      add: ratio(({ addsMs }) => median(addsMs)),
      memory: ratio(memoryOf),
      processor: ratio((side) => used.get(side) ?? 0),
      restart: ratio((side) => restartsMs.get(side) ?? 0),
    };
    const text = [calm, loud].map((side) => {
      const [busy, wait] = [side.waits.map(({ busyMs }) => busyMs), side.waits.map(({ ms }) => ms)];
      const standstill = `standstill ${median(busy).toFixed(1)} ms (at most ${Math.max(...busy).toFixed(1)}), wait ${median(wait).toFixed(1)} ms`;
      const restart = `restart ${restartsMs.get(side)?.toFixed(0)} ms`;
      return `${standstill}, ADD ${median(side.addsMs).toFixed(1)} ms, ${restart}, ${memoryOf(side)} KiB, ${used.get(side)} ticks`;
    });
    console.log(`beside a calm pod: ${text[0]}\nbeside a loud one: ${text[1]}`);
    expect(figures.standstill).toBeLessThan(MOST_STANDSTILL);
    expect(figures.processor).toBeLessThan(MOST_PROCESSOR);
    expect(figures.add).toBeLessThan(MOST_ADD);
    expect(figures.restart).toBeLessThan(MOST_RESTART);
    expect(figures.memory).toBeLessThan(MOST_MEMORY);
    expect((await loudNode.leftovers()).links).toEqual([]);
  });
});
