/** Runs the main plugin where it serves its call itself: flags, then the verb that CNI_COMMAND names (C§0.1). */

import type { Environment } from "../lib/cni/protocol.ts";
import type { Way } from "../main-plugin/to-agent/fork.ts";
import { print } from "./output.ts";
import { printOwnVersion, runFlag, runPlugin } from "./plugin.ts";
import type { Plugin } from "./serve-call.ts";

/** @returns the exit status, unless a call was served, which ends the process */
export async function serveInProcess(
  argv: readonly string[],
  env: Environment,
  readStdin: () => Uint8Array,
  way: Exclude<Way, { kind: "answered" }>,
): Promise<number> {
  const answered = await runFlag("tortie", argv, {
    v: ["Display version", printOwnVersion],
    t: ["Test the connection to the datastore; the network configuration is read from standard input", () => testConnection(env)],
  });
  if (answered !== undefined) return answered;
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
