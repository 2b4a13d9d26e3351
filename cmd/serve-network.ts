/** Serves one call of the main plugin in this process, or the part of a DEL that needs no agent (A§3.10, A§11.5). */

import type { Environment } from "../lib/cni/protocol.ts";
import { clientEnvironment } from "../lib/config/limits.ts";
import { TortieError } from "../lib/errors/errors.ts";
import { resolveNetworkCall } from "../main-plugin/call.ts";
import { executesIpam } from "../main-plugin/find-ipam.ts";
import { createHost } from "../main-plugin/host.ts";
import { serve } from "../main-plugin/serve.ts";
import type { Way } from "../main-plugin/to-agent/fork.ts";
import { takeLeastPrivilege } from "./least-privilege.ts";
import type { Plugin } from "./serve-call.ts";

export async function serveNetwork(
  env: Environment,
  way: Exclude<Way, { kind: "answered" }>,
  ...[request, config, log, signal]: Parameters<Plugin["serve"]>
): Promise<string | undefined> {
  takeLeastPrivilege(config, executesIpam(request, config), log);
  // Not closed: the process ends with its one call, and the last process that closes a local datastore copies it back into its file,
  // with three waits for the disk (docs/project/decisions.md).
  const call = resolveNetworkCall(request, config, env, log, signal);
  const host = createHost(config, clientEnvironment(request.command, env), log);
  if (way.kind === "unplug") {
    const { unplugAndQueueDelete } = await import("../main-plugin/to-agent/queue-delete.ts");
    return unplugAndQueueDelete(call, host, way);
  }
  if (config.agent.mode === "require" && request.command !== "DEL") {
    throw new TortieError("call-invalid", "the agent serves this network, and the call cannot be read to be handed over to it");
  }
  return serve(call, host);
}
