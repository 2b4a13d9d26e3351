/** Serves one call of the main plugin in this process, where there was never an agent or beside one (A§11.6). */

import type { Environment } from "../lib/cni/protocol.ts";
import { type NetworkCall, resolveNetworkCall } from "../main-plugin/call.ts";
import { executesIpam } from "../main-plugin/ipam-source.ts";
import { createNode, type Node } from "../main-plugin/node.ts";
import { serve } from "../main-plugin/serve.ts";
import type { Way } from "../main-plugin/to-agent/fork.ts";
import { takeLeastPrivilege } from "./least-privilege.ts";
import type { Plugin } from "./serve-call.ts";

type WayHere = Exclude<Way, { kind: "answered" }>;

export function serveNetwork(
  env: Environment,
  way: WayHere,
  ...[request, config, log, signal]: Parameters<Plugin["serve"]>
): Promise<string | undefined> {
  takeLeastPrivilege(config, executesIpam(request, config), log);
  // Not closed: the process ends with its one call, and the last process that closes a local datastore copies it back into its file,
  // with three waits for the disk (docs/project/decisions.md).
  return serveBy(way, resolveNetworkCall(request, config, env, log, signal), createNode(config, env, log));
}

async function serveBy(way: WayHere, call: NetworkCall, node: Node): Promise<string | undefined> {
  // The agent keeps no endpoints that another program builds.
  if (way.kind === "no-agent" || call.config.dataplaneOptions?.type === "grpc") return serve(call, node);
  const { serveWithRecord, unplugAndQueueDelete } = await import("../main-plugin/to-agent/agent-away.ts");
  return way.kind === "agent-away-del" ? unplugAndQueueDelete(call, node, way) : serveWithRecord(call, node, way);
}
