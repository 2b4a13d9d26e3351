/** Serves one call of the main plugin in this process, where there was never an agent or beside one (A§11.6). */

import { runDirectoryOf } from "../handover/run-directory.ts";
import type { Environment } from "../lib/cni/protocol.ts";
import { isThere } from "../lib/system/files.ts";
import { type NetworkCall, resolveNetworkCall } from "../main-plugin/call.ts";
import { executesIpam } from "../main-plugin/find-ipam.ts";
import { createHost, type Host } from "../main-plugin/host.ts";
import { type CallPolicy, NO_POLICY, notReady } from "../main-plugin/policy.ts";
import { isChained, serve } from "../main-plugin/serve.ts";
import type { Way } from "../main-plugin/to-agent/fork.ts";
import { takeLeastPrivilege } from "./least-privilege.ts";
import type { Plugin } from "./serve-call.ts";

type WayHere = Exclude<Way, { kind: "answered" }>;

export async function serveNetwork(
  env: Environment,
  way: WayHere,
  ...[request, config, log, signal]: Parameters<Plugin["serve"]>
): Promise<string | undefined> {
  takeLeastPrivilege(config, executesIpam(request, config), log);
  // Not closed: the process ends with its one call, and the last process that closes a local datastore copies it back into its file,
  // with three waits for the disk (docs/project/decisions.md).
  const call = resolveNetworkCall(request, config, env, log, signal);
  return serveBy(way, { ...call, policy: await policyOf(call) }, createHost(config, env, log));
}

/** Loads what asks the kernel only where policy is on. */
async function policyOf({ config: { agent }, env }: NetworkCall): Promise<CallPolicy> {
  const { policyFile } = runDirectoryOf(agent.socket ?? (env.TORTIE_SOCK || undefined));
  if (!isThere(policyFile)) return NO_POLICY;
  const { policyHere } = await import("../main-plugin/to-agent/policy-here.ts");
  return policyHere({ policyFile }, agent.waitSeconds * 1000) ?? NO_POLICY;
}

async function serveBy(way: WayHere, call: NetworkCall, host: Host): Promise<string | undefined> {
  // The agent keeps no endpoints that another program builds.
  if (call.config.dataplaneOptions?.type === "grpc") return serve(call, host);
  if (way.kind === "no-agent") {
    // No agent hears of the attachment, so none would open it.
    if (call.policy !== NO_POLICY && call.request.command === "ADD" && !isChained(call)) throw notReady("which never hears of this call");
    return serve(call, host);
  }
  const { serveWithRecord, unplugAndQueueDelete } = await import("../main-plugin/to-agent/agent-away.ts");
  return way.kind === "agent-away-del" ? unplugAndQueueDelete(call, host, way) : serveWithRecord(call, host, way);
}
