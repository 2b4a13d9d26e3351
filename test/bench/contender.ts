/** One CNI plugin under measurement: whole processes, started as a runtime starts them. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { TemporaryDirectory } from "../support/fixtures.ts";
import type { Resident } from "./resident.ts";

export interface Contender {
  readonly name: string;
  readonly executable: string;
  readonly path: string;
  readonly netconf: string;
  /** The process that its calls go to, whose processor time is theirs as well. */
  readonly resident?: Resident;
}

export interface Sample {
  /** Wall time from fork to exit, milliseconds. */
  readonly ms: number;
  /** Of the process and the children it waited for, milliseconds. */
  readonly processorMs: number;
  readonly stderr: string;
}

export interface Call {
  readonly command: "ADD" | "DEL";
  readonly containerId: string;
  readonly netns: string;
  /** CNI_ARGS. */
  readonly args?: string;
}

/** Runs one call to its end. @throws Error when the plugin fails: a failed operation has no time worth reporting */
export function measure(contender: Contender, call: Call): Promise<Sample> {
  return run([contender.executable], contender, call);
}

export interface Footprint {
  /** The peak resident set, MiB: of the plugin and the children it waited for, whichever was larger. */
  readonly peakMiB: number;
  /** Without reading from a disk, of the plugin and its children; some 15 of them are of whoever starts it. */
  readonly pageFaults: number;
}

/**
 * What one call takes of the machine besides time.
 *
 * GNU time starts the plugin, because the kernel hands the peak of whoever calls exec(2) on to the new program (ru_maxrss,
 * getrusage(2)), and a bench is larger than what it measures. An empty program without libraries has 0.5 MiB there and 44 faults.
 */
export async function measureFootprint(contender: Contender, call: Call): Promise<Footprint> {
  const { stderr } = await run(["/usr/bin/time", "-f", "%M %R", contender.executable], contender, call);
  const [kibibytes = Number.NaN, pageFaults = Number.NaN] = (stderr.trimEnd().split("\n").at(-1) ?? "").split(" ").map(Number);
  if (!Number.isInteger(kibibytes) || !Number.isInteger(pageFaults)) throw new Error(`GNU time printed no figures: ${stderr}`);
  return { peakMiB: kibibytes / 1024, pageFaults };
}

/** System calls of one call: of the plugin, its threads and its children, by strace(1). */
export async function countSystemCalls(contender: Contender, call: Call): Promise<number> {
  using directory = new TemporaryDirectory();
  const output = join(directory.path, "calls");
  await run(["strace", "-f", "-c", "-U", "calls,name", "-o", output, contender.executable], contender, call);
  const total = /^\s*(\d+)\s+total$/m.exec(readFileSync(output, "utf8"))?.[1];
  if (total === undefined) throw new Error(`strace counted nothing: ${readFileSync(output, "utf8")}`);
  return Number(total);
}

function run(command: readonly string[], contender: Contender, call: Call): Promise<Sample> {
  return runProcess(`${contender.name} ${call.command} ${call.containerId}`, command, contender.netconf, {
    CNI_COMMAND: call.command,
    CNI_CONTAINERID: call.containerId,
    CNI_NETNS: call.netns,
    CNI_IFNAME: "eth0",
    CNI_PATH: contender.path,
    CNI_ARGS: call.args ?? "",
  });
}

/** One process from fork to exit, with nothing but `env` in its environment. @throws Error naming `title` when it fails */
export async function runProcess(
  title: string,
  command: readonly string[],
  stdin: string,
  env: Readonly<Record<string, string>>,
): Promise<Sample> {
  const start = performance.now();
  const child = Bun.spawn([...command], { env, stdin: new TextEncoder().encode(stdin), stdout: "pipe", stderr: "pipe" });
  const exit = await child.exited;
  const ms = performance.now() - start;
  const [stdout, stderr] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  if (exit !== 0) throw new Error(`${title} failed (${exit}): ${stdout} ${stderr}`);
  return { ms, processorMs: Number(child.resourceUsage()?.cpuTime.total ?? Number.NaN) / 1000, stderr };
}
