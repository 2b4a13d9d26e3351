/** Whether the addresses of a call are the agent's own to give and to release (A§4). */
import { HOST_SCOPE } from "../../lib/config/ipam-section.ts";
import type { NetworkCall } from "../../main-plugin/call.ts";
import type { FoundAgent } from "../run-directory/agent-file.ts";

/** By the configuration, or by the agent's mode where that says nothing. */
export function isHostScope({ config: { ipam } }: Pick<NetworkCall, "config">, agent: Pick<FoundAgent, "ipam">): boolean {
  return ipam.type === "" ? agent.ipam === "host-scope" : ipam.type === HOST_SCOPE;
}
