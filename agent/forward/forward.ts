/**
 * The fork in the road (A§3.10): a call goes to the agent, or the plugin serves it itself. This file and what it imports is the way through
 * the socket, and all that a plugin on a node without agent loads; whatever else may become of a call is decided in `without-answer.ts`.
 */
import type { Environment } from "../../lib/cni/variables.ts";
import { isThere } from "../../lib/system/files.ts";
import type { Outcome } from "./ask.ts";
import { askAgent, DIRECT, type Way, wayOf } from "./exchange.ts";
import { closeSandbox, prepareCall, withOpenSandbox, withOwnIpam } from "./prepared-call.ts";

export type { Way } from "./exchange.ts";

const OFF: Outcome = { kind: "absent", reason: "agent is off" };

/**
 * @param version of the executable
 * @param readStdin may be called again by who serves the call in this process
 */
export async function forward(env: Environment, version: string, readStdin: () => Uint8Array): Promise<Way> {
  const prepared = prepareCall(env, version, readStdin);
  if (prepared === undefined) return DIRECT;
  const { settings, runDirectory } = prepared;
  if (!isThere(runDirectory.calls) && settings.mode !== "require" && !isThere(runDirectory.agentFile)) return DIRECT;
  const opened = withOpenSandbox(prepared);
  if (opened === undefined) return DIRECT;
  const call = withOwnIpam(opened);
  const asking = settings.mode === "off" ? OFF : askAgent(call, settings.timeoutMs);
  if (asking === undefined) {
    closeSandbox(call);
    return DIRECT;
  }
  const outcome = await asking;
  if (outcome.kind === "answer") {
    const way = wayOf(outcome, call);
    if (way !== undefined) return way;
  }
  const { goOn } = await import("./without-answer.ts");
  return goOn(call, outcome);
}
