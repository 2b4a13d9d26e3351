/** The main plugin where it serves its call itself: flags, then the verb that CNI_COMMAND names (C§0.1). */
import type { Way } from "../agent/forward/forward.ts";
import type { Environment } from "../lib/cni/environment.ts";
import { exitNow } from "../lib/system/exit.ts";
import { type NetworkCall, resolveNetworkCall } from "../main-plugin/call.ts";
import { executesIpam } from "../main-plugin/ipam-source.ts";
import { createNode, type Node } from "../main-plugin/node.ts";
import { serve } from "../main-plugin/serve.ts";
import { takeLeastPrivilege } from "./least-privilege.ts";
import { type Plugin, print, printError, runPlugin } from "./plugin.ts";
import { readFlags } from "./plugin-flags.ts";
import { VERSION } from "./version.ts";

const FLAGS = { v: "Display version", t: "Test the connection to the datastore; the network configuration is read from standard input" };

/** Ends the process. */
export async function serveHere(...call: Parameters<typeof served>): Promise<never> {
  return exitNow(await served(...call));
}

/** @returns the exit status */
async function served(
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
    serve(request, config, log, signal) {
      takeLeastPrivilege(config, executesIpam(request, config), log);
      // Not closed: the process ends with its one call, and the last process that closes a local datastore copies it back into its file,
      // with three waits for the disk (docs/decisions.md).
      return serveBy(way, resolveNetworkCall(request, config, env, log, signal), createNode(config, env, log));
    },
  };
  return runPlugin(plugin, env, readStdin);
}

async function serveBy(way: Exclude<Way, { kind: "answered" }>, call: NetworkCall, node: Node): Promise<string | undefined> {
  // The agent keeps no endpoints that another program builds.
  if (way.kind === "direct" || call.config.dataplaneOptions?.type === "grpc") return serve(call, node);
  const { serveBeside, unplugAndQueue } = await import("../agent/direct-mode/direct-mode.ts");
  return way.kind === "queue" ? unplugAndQueue(call, node, way) : serveBeside(call, node, way);
}

/** Prints nothing on success. @returns the exit status */
async function testConnection(env: Environment): Promise<number> {
  const { probe } = await import("./probe.ts");
  const error = await probe(env);
  if (error === undefined) return 0;
  print(error);
  return 1;
}
