/**
 * The main plugin, `tortie` or `calico`: hands its call to the agent, or serves it (A§3.10). What the way to the agent does not need is
 * loaded when it is known that the plugin serves the call itself.
 */
import { forward, type Way } from "../agent/forward/forward.ts";
import type { Environment } from "../lib/cni/variables.ts";
import { readToEnd, writeAll } from "../lib/system/files.ts";
import { once } from "../lib/system/once.ts";
import { VERSION } from "./version.ts";

export async function tortie(argv: readonly string[], env: Environment): Promise<number> {
  const readStdin = once(() => readToEnd(0, "standard input"));
  // Flags are for people; runtimes give none.
  const way: Way = argv.length > 0 ? { kind: "direct" } : await forward(env, VERSION, readStdin);
  if (way.kind === "answered") return printAnswer(way.output, way.exit);
  const { serveHere } = await import("./tortie-here.ts");
  return serveHere(argv, env, readStdin, way);
}

/** @returns the exit status */
function printAnswer(output: Uint8Array, exit: number): number {
  try {
    writeAll(1, output);
    return exit;
  } catch {
    // Standard output is closed, or a pipe without a reader; standard error may still have one.
    writeAll(2, output);
    return 1;
  }
}
