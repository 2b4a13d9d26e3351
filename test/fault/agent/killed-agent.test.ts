/**
 * An agent that is killed at any moment of an ADD or a DEL, and started again (A-A07, A-A08): the repeated call makes the attachment
 * complete, or it is gone; nobody ever has two addresses, and no address is free while a link carries it.
 *
 * strace kills the running agent at the n-th system call of one kind after the call was sent. Every point takes a second, so that a run
 * takes a sample of them, spread over the whole call; TORTIE_KILL_POINTS=all takes them all.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { Agent } from "../../support/agent.ts";
import { type CallOptions, callAgent, recordsOf } from "../../support/agent-calls.ts";
import { dualIpam, localConf } from "../../support/conf.ts";
import { Node, type Pod } from "../../support/node.ts";
import { readStore } from "../../support/store.ts";

/**
 * The calls that change something outside the process: netlink messages, the datastore, records, files below /proc/sys, namespaces. An ADD
 * makes some 20, 15, 25, 6 and 8 of them; every so many of them is one point.
 */
const CALLS: readonly (readonly [calls: string, stride: number])[] = [
  ["sendto,sendmsg", 5],
  ["pwrite64", 4],
  ["write", 6],
  ["rename,renameat,renameat2,mkdir,mkdirat,unlink,unlinkat,link,linkat", 2],
  ["setns", 3],
];
/** No operation comes near this many of them. */
const MANY = 400;
const TAKES_ALL = process.env.TORTIE_KILL_POINTS === "all";

/** Where addresses come from. */
interface Mode {
  readonly name: string;
  readonly args: readonly string[];
  readonly ipam: Record<string, unknown>;
  /** How many addresses are taken, and how many handles hold them. */
  readonly taken: (node: Node, agent: Agent) => Promise<{ readonly allocated: number; readonly handles: number }>;
  /** Of an attachment that is complete. */
  readonly whole: { readonly allocated: number; readonly handles: number };
  /** Points are left out: every so many of those of the other mode is taken. */
  readonly sparseness: number;
}

const BLOCKS: Mode = {
  name: "blocks",
  args: [],
  ipam: dualIpam("46"),
  async taken(node) {
    const { allocated, handles } = await readStore(node);
    return { allocated: allocated.length, handles: handles.length };
  },
  whole: { allocated: 2, handles: 1 },
  sparseness: 1,
};

/** The router's and the health checks' addresses, which the agent keeps for itself. */
const OWN_ADDRESSES = 2;

const HOST_SCOPE: Mode = {
  name: "host scope",
  args: ["--ipam", "host-scope", "--ipv4-range", "10.62.0.0/24", "--enable-ipv6", "false", "--ipam-cooldown", "0"],
  ipam: { type: "tortie-host-scope" },
  async taken(_, { runDir }) {
    const grants = readdirSync(join(runDir, "state/ipam/v4")).filter((name) => /^[0-9.]+$/.test(name));
    return { allocated: grants.length - OWN_ADDRESSES, handles: 0 };
  },
  whole: { allocated: 1, handles: 0 },
  sparseness: 2,
};

interface Stage {
  readonly mode: Mode;
  readonly node: Node;
  readonly agent: Agent;
  readonly pod: Pod;
  readonly conf: Record<string, unknown>;
}

interface Tally {
  kills: number;
  readonly leaks: unknown[];
}

async function withStage(mode: Mode, work: (stage: Stage) => Promise<void>): Promise<void> {
  await using node = await Node.create();
  await using agent = await Agent.start(node, { args: mode.args });
  const conf = localConf(node, { cniVersion: "1.1.0", ipam: mode.ipam, ...agent.netconf });
  const stage = { mode, node, agent, pod: await node.addPod(), conf };
  // The agent has its own addresses, and everything that is made once for a node.
  for (const verb of ["add", "del"]) expect(await call(stage, verb, stage)).toBe("");
  await work(stage);
}

/** Lets strace kill the agent at the n-th of these system calls from now on; comes back when it is attached. */
async function aim(agent: Agent, calls: string, when: number): Promise<ChildProcess> {
  const arguments_ = ["-f", "-o", "/dev/null", "-e", `trace=${calls}`, "-e", `inject=${calls}:signal=SIGKILL:when=${when}`];
  const strace = spawn("/usr/bin/strace", [...arguments_, "-p", String(agent.pid)], { stdio: ["ignore", "ignore", "pipe"] });
  await new Promise<void>((attached, failed) => {
    let said = "";
    strace.stderr?.on("data", (chunk: Buffer) => {
      said += chunk.toString();
      if (said.includes(" attached")) attached();
    });
    strace.once("close", (exit) => failed(new Error(`strace ended (${exit}): ${said}`)));
  });
  return strace;
}

/** @returns whether the agent was killed */
async function isKilled({ agent, pod, conf }: Stage, verb: string, calls: string, when: number): Promise<boolean> {
  const strace = await aim(agent, calls, when);
  const ended = new Promise((done) => strace.once("close", done));
  const answer = await callAgent(agent, verb, conf, { pod }).catch(() => undefined);
  if (answer === undefined) {
    await agent.ended;
    await ended;
    return true;
  }
  expect({ verb, calls, when, status: answer.status, text: answer.status === 200 ? "" : answer.text }).toMatchObject({ status: 200 });
  strace.kill("SIGTERM");
  await ended;
  // What comes after the answer, such as a line of the log, may have been the point.
  if ((await agent.request("GET", "/config").catch(() => undefined)) !== undefined) return false;
  await agent.ended;
  return true;
}

async function call({ agent, conf }: Stage, verb: string, options: CallOptions): Promise<string> {
  const { status, text } = await callAgent(agent, verb, conf, options);
  return status === 200 ? "" : text;
}

/** What there is, in numbers. */
async function inventory({ mode, node, agent, pod }: Stage) {
  const { endpoints } = await readStore(node);
  const { links } = await node.leftovers();
  const inPod = (await node.podIp(pod, "-j", "link", "show")).length - 1;
  const records = recordsOf(agent).length;
  const taken = await mode.taken(node, agent);
  return { links: links.length, inPod, endpoints: endpoints.length, records, ...taken };
}

const NOTHING = { links: 0, inPod: 0, endpoints: 0, records: 0, allocated: 0, handles: 0 };

function complete({ whole }: Mode) {
  return { links: 1, inPod: 1, endpoints: 1, records: 1, ...whole };
}

async function expectEqually(tally: Tally, story: Record<string, unknown>, found: unknown, wanted: unknown): Promise<void> {
  if (JSON.stringify(found) !== JSON.stringify(wanted)) tally.leaks.push({ ...story, found, wanted });
}

/** After the kill: by the repeated call, by the runtime's DEL, or by nobody's help. */
const RECOVERIES = ["repeat", "DEL", "nobody"] as const;

async function pointOfAdd(stage: Stage, calls: string, when: number, tally: Tally): Promise<boolean> {
  const { agent, pod } = stage;
  const wasKilled = await isKilled(stage, "add", calls, when);
  if (wasKilled) {
    tally.kills++;
    const recovery = RECOVERIES[when % RECOVERIES.length] ?? "DEL";
    const story = { verb: "add", calls, when, recovery };
    await agent.restart();
    if (recovery === "nobody") await expectSettled(stage, story, tally);
    if (recovery === "repeat") {
      await expectEqually(tally, story, await call(stage, "add", { pod }), "");
      await expectEqually(tally, story, await inventory(stage), complete(stage.mode));
    }
  }
  const story = { verb: "add", calls, when, end: "DEL" };
  await expectEqually(tally, story, await call(stage, "del", { pod }), "");
  await expectEqually(tally, story, await inventory(stage), NOTHING);
  return wasKilled;
}

/** The agent itself brings an ADD that was cut off to an end: nothing, or, past the commit, all of it. */
async function expectSettled(stage: Stage, story: Record<string, unknown>, tally: Tally): Promise<void> {
  const isSettled = () => recordsOf(stage.agent).every(({ phase }) => phase === "ready");
  await stage.agent.until("the interrupted ADD to be taken back", isSettled);
  const wanted = recordsOf(stage.agent).length === 0 ? NOTHING : complete(stage.mode);
  await expectEqually(tally, story, await inventory(stage), wanted);
}

async function pointOfDel(stage: Stage, calls: string, when: number, tally: Tally): Promise<boolean> {
  const { agent, pod } = stage;
  expect(await call(stage, "add", { pod })).toBe("");
  const wasKilled = await isKilled(stage, "del", calls, when);
  const story = { verb: "del", calls, when };
  if (wasKilled) {
    tally.kills++;
    const { links, allocated } = await inventory(stage);
    if (links > 0) await expectEqually(tally, { ...story, is: "a link without its addresses" }, allocated, stage.mode.whole.allocated);
    await agent.restart();
    // Half of them are finished by the agent alone, where it knew of the DEL.
    if (when % 2 === 0) await agent.until("the DEL to be finished", () => recordsOf(agent).every(({ phase }) => phase === "ready"));
  }
  await expectEqually(tally, story, await call(stage, "del", { pod }), "");
  await expectEqually(tally, story, await inventory(stage), NOTHING);
  return wasKilled;
}

/** Tries points until the call is over before the agent is killed. */
async function sweep(mode: Mode, point: typeof pointOfAdd, calls: string, stride: number): Promise<Tally> {
  const tally: Tally = { kills: 0, leaks: [] };
  await withStage(mode, async (stage) => {
    for (let when = 1; when < MANY; when += TAKES_ALL ? 1 : stride * mode.sparseness) if (!(await point(stage, calls, when, tally))) break;
  });
  return tally;
}

describe.each([BLOCKS, HOST_SCOPE])("an agent with $name, killed and started again", (mode) => {
  it.each([
    ["A-A07: ADD", pointOfAdd],
    ["A-A08: DEL", pointOfDel],
  ] as const)(
    "%s leaves one complete attachment or nothing",
    async (title, point) => {
      const tallies = await Promise.all(CALLS.map(([calls, stride]) => sweep(mode, point, calls, stride)));
      const kills = tallies.reduce((sum, tally) => sum + tally.kills, 0);
      const leaks = tallies.flatMap((tally) => tally.leaks);
      process.stdout.write(`${title} with ${mode.name}: ${kills} points tried, ${leaks.length} leaks\n`);
      expect(leaks).toEqual([]);
      expect(kills).toBeGreaterThan(2);
    },
    600_000,
  );
});
