/** One CNI plugin under measurement: whole processes, started as a runtime starts them. */

export interface Contender {
  readonly name: string;
  readonly executable: string;
  readonly path: string;
  readonly netconf: string;
}

export interface Sample {
  /** Wall time from fork to exit, milliseconds. */
  readonly ms: number;
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

/**
 * The peak resident set of one call, MiB: of the plugin and the children it waited for, whichever was larger.
 *
 * GNU time starts the plugin, because the kernel hands the peak of whoever calls exec(2) on to the new program (ru_maxrss,
 * getrusage(2)), and a bench is larger than what it measures.
 */
export async function measurePeak(contender: Contender, call: Call): Promise<number> {
  const { stderr } = await run(["/usr/bin/time", "-f", "%M", contender.executable], contender, call);
  const kibibytes = Number(stderr.trimEnd().split("\n").at(-1));
  if (!Number.isInteger(kibibytes)) throw new Error(`GNU time printed no peak: ${stderr}`);
  return kibibytes / 1024;
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
  return { ms, stderr };
}
