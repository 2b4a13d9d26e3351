/**
 * `npm run bench -- --resident`: what an agent costs a node that it stays on, with 110 endpoints on the local datastore: memory
 * over 10,000 ADDs and DELs, its processor time at rest, its start after a kill, how long it stands still in a burst.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { callBody } from "../../support/agent-calls.ts";
import { callMessage, exchangeCall } from "../../support/call-socket.ts";
import { BIN_DIR } from "../../support/node.ts";
import { type Contender, measure } from "../contender.ts";
import { RUN_DIRECTORY, startResident } from "../resident.ts";
import { row } from "../statistics.ts";

const PODS = 110;
/** Attachments that come and go beside them, this many at once. */
const LANES = 8;
const CYCLES = 10_000;
const REST_MS = 60_000;
/** The runtime's compiler and collector go on for some minutes after a start. */
const RESTS = 3;
/** What a start or a burst leaves behind is collected meanwhile. */
const SETTLE_MS = 30_000;
/** No call takes so long; this only ends what hangs. */
const CALL_LIMIT_MS = 60_000;
const WIDTHS = [60, 10];

const directory = mkdtempSync(join(tmpdir(), "tortie-bench-"));
const socket = join(RUN_DIRECTORY, "tortie.sock");
const netconf = {
  cniVersion: "1.0.0",
  name: "bench",
  type: "tortie",
  agent: "require",
  datastore_type: "local",
  datastore_path: join(directory, "bench.db"),
  ipam_lock_file: join(directory, "ipam.lock"),
  nodename: "bench-node",
  ipam: { type: "tortie-ipam", pools: [{ cidr: "10.99.0.0/16" }] },
};
const plugin: Contender = { name: "tortie", executable: join(BIN_DIR, "tortie"), path: BIN_DIR, netconf: JSON.stringify(netconf) };
const namespaces = Array.from({ length: PODS + LANES }, (_, i) => `bench-${process.pid}-${i}`);
// An id rests a minute before it is given again, and a cycle takes milliseconds.
const start = () => startResident(RUN_DIRECTORY, ["--node-name", "bench-node", "--max-endpoints", "65535"]);

function say(what: string, value: string): void {
  console.log(row([what, value], WIDTHS));
}

function netnsOf(index: number): string {
  return `/run/netns/${namespaces[index]}`;
}

/** Resident set, MiB. */
function memoryOf(pid: number): number {
  return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
}

/** As the executable asks, without its process. @throws Error when the operation fails */
async function ask(verb: "add" | "del", containerId: string, index: number): Promise<void> {
  const path = netnsOf(index);
  const { dev, ino } = statSync(path, { bigint: true });
  const body = callBody(netconf, { containerId, netns: { path, dev: String(dev), ino: String(ino) } });
  const { status, text } = await exchangeCall(join(RUN_DIRECTORY, "cni.sock"), callMessage(verb, body), AbortSignal.timeout(CALL_LIMIT_MS));
  if (status !== 200) throw new Error(`${verb} ${containerId}: ${status} ${text}`);
}

/** Asks for the agent's health without a pause until `work` ends. @returns the longest wait for an answer, ms */
async function longestWaitDuring(work: Promise<unknown>): Promise<number> {
  let [longest, isOver] = [0, false];
  const over = work.finally(() => {
    isOver = true;
  });
  while (!isOver) {
    const asked = performance.now();
    await (await fetch("http://agent/v1/healthz", { unix: socket })).text();
    longest = Math.max(longest, performance.now() - asked);
    await Bun.sleep(2);
  }
  await over;
  return longest;
}

async function cycle(from: number, to: number): Promise<void> {
  const lane = async (index: number) => {
    for (let turn = from + index; turn < to; turn += LANES) {
      await ask("add", `cycle-${turn}`, PODS + index);
      await ask("del", `cycle-${turn}`, PODS + index);
    }
  };
  await Promise.all(Array.from({ length: LANES }, (_, index) => lane(index)));
}

try {
  for (const name of namespaces) execFileSync("ip", ["netns", "add", name]);
  const first = await start();
  const pods = Array.from({ length: PODS }, (_, pod) =>
    measure(plugin, { command: "ADD", containerId: `pod-${pod}`, netns: netnsOf(pod) }),
  );
  say(`longest wait for an answer during ${PODS} ADDs at once, ms`, (await longestWaitDuring(Promise.all(pods))).toFixed(0));
  say("longest standstill of the event loop meanwhile, ms", (await first.longestStandstillMs()).toFixed(0));

  await first.kill();
  const begun = performance.now();
  await using agent = await start();
  say(`SIGKILL and start with ${PODS} endpoints, until ready, ms`, (performance.now() - begun).toFixed(0));
  say(`memory with ${PODS} endpoints, MiB`, memoryOf(agent.pid).toFixed(1));

  await Bun.sleep(SETTLE_MS);
  for (let minute = 1; minute <= RESTS; minute++) {
    const before = agent.processorMs();
    await Bun.sleep(REST_MS);
    say(`processor time of ${REST_MS / 1000} s without events, time ${minute}, s`, ((agent.processorMs() - before) / 1000).toFixed(2));
  }

  const before = agent.processorMs();
  await cycle(0, CYCLES / 2);
  say(`memory after ${CYCLES / 2} ADDs and DELs, MiB`, memoryOf(agent.pid).toFixed(1));
  await cycle(CYCLES / 2, CYCLES);
  say(`memory after ${CYCLES} ADDs and DELs, MiB`, memoryOf(agent.pid).toFixed(1));
  say("processor time of an ADD and a DEL in the agent, ms", ((agent.processorMs() - before) / CYCLES).toFixed(2));
  await Bun.sleep(SETTLE_MS);
  say(`memory ${SETTLE_MS / 1000} s later, MiB`, memoryOf(agent.pid).toFixed(1));
} finally {
  for (const name of namespaces) execFileSync("ip", ["netns", "del", name]);
  rmSync(directory, { recursive: true, force: true });
}
