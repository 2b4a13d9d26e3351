/**
 * Runs the main plugin, `tortie` or `calico`: hands its call to the agent, or serves it (A§3.10). What the way to the agent does not need is
 * loaded when it is known that the plugin serves the call itself.
 */

import type { Environment } from "../lib/cni/protocol.ts";
import { readToEnd, writeAll } from "../lib/system/files.ts";
import { once } from "../lib/system/waiting.ts";
import { type ForwardedCall, forward, HERE, type Way } from "../main-plugin/to-agent/fork.ts";
import { printError, VERSION } from "./output.ts";

/** Matches how the forwarder hands over a call whose answer it no longer waits for, and how long it has waited (forwarder/forwarder.c). */
const SENT_CALL = /^--agent-call=(\d{1,9})$/;
const FORWARDER_WAITED_MS = 2_000;
/** How the forwarder hands over an ADD that the agent has served, and whose result it cannot write. */
const UNDO_ADD = "--undo-add";

type Answered = Extract<Way, { kind: "answered" }>;

export async function tortie(argv: readonly string[], env: Environment): Promise<number> {
  const readStdin = once(() => readToEnd(0, "standard input"));
  if (argv[0] === UNDO_ADD && env.CNI_COMMAND === "ADD") return undo("the agent had served it", env, readStdin);
  const sent = sentCall(argv);
  const flags = sent === undefined ? argv : [];
  // Flags are for people; runtimes give none.
  const way: Way = flags.length > 0 ? HERE : await forward(env, VERSION, readStdin, sent);
  if (way.kind === "answered") return printAnswer(way, env, readStdin);
  const { serveInProcess } = await import("./tortie-here.ts");
  return serveInProcess(flags, env, readStdin, way);
}

function sentCall([option = "", ...more]: readonly string[]): ForwardedCall | undefined {
  const fd = SENT_CALL.exec(option)?.[1];
  return fd === undefined || more.length > 0 ? undefined : { fd: Number(fd), waitedMs: FORWARDER_WAITED_MS };
}

/** @returns the exit status */
async function printAnswer({ output, exit }: Answered, env: Environment, readStdin: () => Uint8Array): Promise<number> {
  try {
    writeAll(1, output);
    return exit;
  } catch (cause) {
    // Standard output is closed, or a pipe without a reader; standard error may still have one.
    writeAll(2, output);
    return exit === 0 && env.CNI_COMMAND === "ADD" ? undo(cause, env, readStdin) : 1;
  }
}

/** @param why the result cannot be written @returns the exit status of the ADD */
async function undo(why: unknown, env: Environment, readStdin: () => Uint8Array): Promise<number> {
  const [{ undone }, { renderError }] = await Promise.all([import("./unprinted.ts"), import("../lib/cni/error-output.ts")]);
  printError(`${renderError(undone(why instanceof Error ? why.message : String(why), { env, stdin: readStdin() }))}\n`);
  return 1;
}
