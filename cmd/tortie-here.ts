/** Runs the main plugin where it serves its call itself: flags, then the verb that CNI_COMMAND names (C§0.1). */

import type { Environment } from "../lib/cni/protocol.ts";
import type { Way } from "../main-plugin/to-agent/fork.ts";
import { print, printError, VERSION } from "./output.ts";
import { readFlags, runPlugin } from "./plugin.ts";
import type { Plugin } from "./serve-call.ts";

const FLAGS = { v: "Display version", t: "Test the connection to the datastore; the network configuration is read from standard input" };

/** @returns the exit status, unless a call was served, which ends the process */
export async function serveInProcess(
  argv: readonly string[],
  env: Environment,
  readStdin: () => Uint8Array,
  way: Exclude<Way, { kind: "answered" }>,
): Promise<number> {
  const run = readFlags("tortie", argv, FLAGS);
  if (run.kind === "stop") {
    printError(run.stderr);
    return run.exit;
  }
  if (run.kind === "flag") {
    if (run.flag === "t") return testConnection(env);
    print(`${VERSION}\n`);
    return 0;
  }
  const plugin: Plugin = {
    name: "tortie",
    async serve(...call) {
      const { serveNetwork } = await import("./serve-network.ts");
      return serveNetwork(env, way, ...call);
    },
  };
  return runPlugin(plugin, env, readStdin);
}

/** Prints nothing on success. Ends the process, with the store left open, as a call does. */
async function testConnection(env: Environment): Promise<never> {
  const [{ probe }, { exitNow }] = await Promise.all([import("./probe.ts"), import("../lib/system/libc.ts")]);
  const error = await probe(env);
  if (error !== undefined) print(error);
  return exitNow(error === undefined ? 0 : 1);
}
