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
  /** Peak resident set of the plugin and the children it waited for, MiB. */
  readonly peakMiB: number;
  readonly stderr: string;
}

export interface Call {
  readonly command: "ADD" | "DEL";
  readonly containerId: string;
  readonly netns: string;
}

/** Runs one call to its end. @throws Error when the plugin fails: a failed operation has no time worth reporting */
export async function measure(contender: Contender, call: Call): Promise<Sample> {
  const start = performance.now();
  const child = Bun.spawn([contender.executable], {
    env: {
      CNI_COMMAND: call.command,
      CNI_CONTAINERID: call.containerId,
      CNI_NETNS: call.netns,
      CNI_IFNAME: "eth0",
      CNI_PATH: contender.path,
      CNI_ARGS: "",
    },
    stdin: new TextEncoder().encode(contender.netconf),
    stdout: "pipe",
    stderr: "pipe",
  });
  const exit = await child.exited;
  const ms = performance.now() - start;
  const [stdout, stderr] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  if (exit !== 0) throw new Error(`${contender.name} ${call.command} ${call.containerId} failed (${exit}): ${stdout} ${stderr}`);
  return { ms, peakMiB: (child.resourceUsage()?.maxRSS ?? 0) / 2 ** 20, stderr };
}
