/** Starts this program again: as a pod's process in a network namespace of its own, and as a probe inside one. */
import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { TortieError } from "../../lib/errors/errors.ts";
import { runProgram } from "../../lib/system/run-program.ts";
import { endsWithin, SYSTEM_CLOCK } from "../../lib/system/waiting.ts";
import { type ProbeReply, type ProbeRequest, parseReply } from "./question.ts";

/** util-linux has both programs, on every distribution. */
const FOLDERS = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];
const START_MS = 30_000;
/** Exceeds the longest reply many times. */
const MOST_OF_A_REPLY = 256 * 1024;
/** What a probe says when it listens. */
export const READY = "ready";

/** A process that answers probes. It holds its network namespace, and ends with the process that started it, whose pipe it reads. */
export interface Sandboxed {
  /** Path of its network namespace. */
  readonly netns: string;
  end(): Promise<void>;
}

/** @returns this program's file under the name by which it is tortiectl: its role hangs on that */
function ownFile(): string {
  const called = process.argv0.includes("/") ? resolve(process.argv0) : (Bun.which(process.argv0) ?? "");
  return existsSync(called) ? called : join(dirname(process.execPath), "tortiectl");
}

function programNamed(name: string): string {
  const found = FOLDERS.map((folder) => join(folder, name)).find(existsSync);
  if (found !== undefined) return found;
  throw new TortieError("platform-unsupported", `there is no program ${name} in ${FOLDERS.join(", ")}`, { next: "install util-linux" });
}

/** @throws TortieError `platform-unsupported` when it does not come to listen */
export async function startSandboxed(name: string, ports: readonly number[]): Promise<Sandboxed> {
  const serve = [ownFile(), "connectivity", "serve", "--name", name, "--ports", ports.join(","), "--until-input-ends"];
  // Leads a session of its own: Ctrl-C is for the test, which then removes its pods in order.
  const child = Bun.spawn([programNamed("unshare"), "--net", ...serve], { stdin: "pipe", stdout: "pipe", stderr: "pipe", detached: true });
  const heard = new Response(child.stdout).body?.getReader();
  const first = heard?.read().then(({ value }) => new TextDecoder().decode(value).trim());
  const isReady = first !== undefined && (await endsWithin(SYSTEM_CLOCK, START_MS, first)) && (await first) === READY;
  const end = async () => {
    child.kill("SIGKILL");
    await child.exited;
  };
  if (isReady) return { netns: `/proc/${child.pid}/ns/net`, end };
  await end();
  const said = (await new Response(child.stderr).text()).trim().slice(0, 300);
  throw new TortieError("platform-unsupported", `no network namespace for a pod of the test: ${said === "" ? "it does not start" : said}`, {
    next: "run it as root",
  });
}

/** Has a probe try what is asked, inside a network namespace. @throws ProgramError, Error */
export async function probeIn(netns: string, request: ProbeRequest, signal: AbortSignal): Promise<ProbeReply> {
  const { stdout, failure } = await runProgram({
    command: [programNamed("nsenter"), `--net=${netns}`, ownFile(), "connectivity", "probe", JSON.stringify(request)],
    stdin: new Uint8Array(),
    env: process.env,
    // Transfers with a limit take several times the limit of one answer.
    timeoutMs: START_MS + 30 * request.timeoutMs,
    maxOutput: MOST_OF_A_REPLY,
    signal,
  });
  if (failure !== undefined) throw new Error(`the probe ended with ${failure}`);
  return parseReply(new TextDecoder().decode(stdout));
}
