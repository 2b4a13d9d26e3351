/**
 * Kills of a running agent at the system calls of an ADD or a DEL (A-A07, A-A08), whatever store and allocator it uses. strace does it at
 * the n-th call of one kind after the request was sent. Every point takes a second or more, so that a run takes a sample of them, spread
 * over the whole operation; TORTIE_KILL_POINTS=all takes them all.
 */
import type { ChildProcess } from "node:child_process";
import type { Agent } from "./agent.ts";
import { callAgent, recordsOf } from "./agent-calls.ts";
import { granted } from "./host-scope-agent.ts";
import type { Pod } from "./node.ts";
import { follow, injected } from "./strace.ts";

/** No operation comes near this many of them. */
const MANY = 400;
/** It ends within milliseconds of the process that it follows. */
const STRACE_LIMIT_MS = 5_000;
const TAKES_ALL = process.env.TORTIE_KILL_POINTS === "all";

/** What there is, in numbers. */
export interface Inventory {
  readonly links: number;
  readonly inPod: number;
  readonly endpoints: number;
  readonly records: number;
  readonly allocated: number;
  readonly handles: number;
}

/** One agent with one attachment that comes and goes. */
export interface KillStage {
  readonly agent: Agent;
  readonly pod: Pod;
  readonly conf: Record<string, unknown>;
  /** CNI_ARGS */
  readonly args?: string;
  readonly inventory: () => Promise<Inventory>;
  /** Of the attachment when it is complete. */
  readonly complete: Inventory;
}

/** Where addresses come from, as seen on a store of the kind `W`. */
export interface KillMode<W> {
  readonly name: string;
  /** Of the agent. */
  readonly args: readonly string[];
  readonly ipam: Record<string, unknown>;
  /** How many addresses are taken, and how many handles hold them. */
  readonly taken: (world: W, agent: Agent) => Promise<Pick<Inventory, "allocated" | "handles">>;
  /** Of an attachment that is complete. */
  readonly whole: Pick<Inventory, "allocated" | "handles">;
  /** Points are left out: every so many of those of the other mode is taken. */
  readonly sparseness: number;
}

/** The router's and the health checks' addresses, which the agent keeps for itself. */
const OWN_ADDRESSES = 2;

export const HOST_SCOPE: KillMode<unknown> = {
  name: "host scope",
  args: ["--ipam", "host-scope", "--ipv4-range", "10.62.0.0/24", "--enable-ipv6", "false", "--ipam-cooldown", "0"],
  ipam: { type: "tortie-host-scope" },
  taken: async (_, agent) => ({ allocated: granted(agent).length - OWN_ADDRESSES, handles: 0 }),
  whole: { allocated: 1, handles: 0 },
  sparseness: 2,
};

export interface Tally {
  kills: number;
  readonly leaks: unknown[];
}

const NOTHING: Inventory = { links: 0, inPod: 0, endpoints: 0, records: 0, allocated: 0, handles: 0 };

/** Lets strace kill the agent at the n-th of these system calls from now on; comes back when it is attached. */
export function aim(agent: Agent, calls: string, when: number): Promise<ChildProcess> {
  return follow(agent.pid, injected(calls, `signal=SIGKILL:when=${when}`));
}

/** @returns whether the agent was killed */
async function isKilled(stage: KillStage, verb: string, calls: string, when: number): Promise<boolean> {
  const { agent } = stage;
  const strace = await aim(agent, calls, when);
  const ended = new Promise((done) => strace.once("close", done));
  const answer = await ask(stage, verb).catch(() => undefined);
  // Where a thread was being made when the process was killed, strace may wait for it for ever, and the process cannot be buried before.
  const patience = setTimeout(() => strace.kill("SIGKILL"), STRACE_LIMIT_MS);
  void ended.then(() => clearTimeout(patience));
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

function ask({ agent, conf, pod, args }: KillStage, verb: string) {
  return callAgent(agent, verb, conf, { pod, ...(args === undefined ? {} : { args }) });
}

/** @returns "", or what the agent says of its failure */
export async function call(stage: KillStage, verb: string): Promise<string> {
  const { status, text } = await ask(stage, verb);
  return status === 200 ? "" : text;
}

async function expectEqually(tally: Tally, story: Record<string, unknown>, found: unknown, wanted: unknown): Promise<void> {
  if (JSON.stringify(found) !== JSON.stringify(wanted)) tally.leaks.push({ ...story, found, wanted });
}

/** After the kill: by the repeated call, by the runtime's DEL, or by nobody's help. */
const RECOVERIES = ["repeat", "DEL", "nobody"] as const;

/** An ADD of an attachment that is there, by a call that differs, is killed: the container runs on, with all that it has. */
export async function pointOfRepeatedAdd(stage: KillStage, calls: string, when: number, tally: Tally): Promise<boolean> {
  const { agent, pod } = stage;
  const story = { verb: "repeated add", calls, when };
  await expectEqually(tally, story, await call(stage, "add"), "");
  // Without its end in the pod the link is made again; with it only the record is written.
  if (when % 2 === 0) await agent.node.podIp(pod, "link", "delete", "eth0");
  const wasKilled = await isKilled({ ...stage, args: "IgnoreUnknown=1;OTHER=1" }, "add", calls, when);
  if (wasKilled) {
    tally.kills++;
    await agent.restart();
    await agent.until("the restore", () => isWhole(stage));
    await expectEqually(tally, story, await stage.inventory(), stage.complete);
  }
  await expectEqually(tally, { ...story, end: "DEL" }, await call(stage, "del"), "");
  await expectEqually(tally, { ...story, end: "DEL" }, await stage.inventory(), NOTHING);
  return wasKilled;
}

async function isWhole({ inventory, complete }: KillStage): Promise<boolean> {
  return JSON.stringify(await inventory()) === JSON.stringify(complete);
}

export async function pointOfAdd(stage: KillStage, calls: string, when: number, tally: Tally): Promise<boolean> {
  const { agent } = stage;
  const wasKilled = await isKilled(stage, "add", calls, when);
  if (wasKilled) {
    tally.kills++;
    const recovery = RECOVERIES[when % RECOVERIES.length] ?? "DEL";
    const story = { verb: "add", calls, when, recovery };
    await agent.restart();
    if (recovery === "nobody") await expectSettled(stage, story, tally);
    if (recovery === "repeat") {
      await expectEqually(tally, story, await call(stage, "add"), "");
      await expectEqually(tally, story, await stage.inventory(), stage.complete);
    }
  }
  const story = { verb: "add", calls, when, end: "DEL" };
  await expectEqually(tally, story, await call(stage, "del"), "");
  await expectEqually(tally, story, await stage.inventory(), NOTHING);
  return wasKilled;
}

/** The agent itself brings an ADD that was cut off to an end: nothing, or, past the commit, all of it. */
async function expectSettled(stage: KillStage, story: Record<string, unknown>, tally: Tally): Promise<void> {
  const isSettled = () => recordsOf(stage.agent).every(({ phase }) => phase === "ready");
  await stage.agent.until("the interrupted ADD to be taken back", isSettled);
  const wanted = recordsOf(stage.agent).length === 0 ? NOTHING : stage.complete;
  await expectEqually(tally, story, await stage.inventory(), wanted);
}

export async function pointOfDel(stage: KillStage, calls: string, when: number, tally: Tally): Promise<boolean> {
  const { agent } = stage;
  expect(await call(stage, "add")).toBe("");
  const wasKilled = await isKilled(stage, "del", calls, when);
  const story = { verb: "del", calls, when };
  if (wasKilled) {
    tally.kills++;
    const { links, allocated } = await stage.inventory();
    if (links > 0) await expectEqually(tally, { ...story, is: "a link without its addresses" }, allocated, stage.complete.allocated);
    await agent.restart();
    // Half of them are finished by the agent alone, where it knew of the DEL.
    if (when % 2 === 0) await agent.until("the DEL to be finished", () => recordsOf(agent).every(({ phase }) => phase === "ready"));
  }
  await expectEqually(tally, story, await call(stage, "del"), "");
  await expectEqually(tally, story, await stage.inventory(), NOTHING);
  return wasKilled;
}

/** Tries points until the operation is over before the agent is killed. @param stride every so many of these calls is one point */
export async function sweep(stage: KillStage, point: typeof pointOfAdd, calls: string, stride: number): Promise<Tally> {
  const tally: Tally = { kills: 0, leaks: [] };
  for (let when = 1; when < MANY; when += TAKES_ALL ? 1 : stride) if (!(await point(stage, calls, when, tally))) break;
  return tally;
}

/** What all sweeps of a test came to. */
export function expectNoLeaks(title: string, tallies: readonly Tally[]): void {
  const kills = tallies.reduce((sum, tally) => sum + tally.kills, 0);
  const leaks = tallies.flatMap((tally) => tally.leaks);
  process.stdout.write(`${title}: ${kills} points tried, ${leaks.length} leaks\n`);
  expect(leaks).toEqual([]);
  expect(kills).toBeGreaterThan(2);
}
