/**
 * Decides whether a call goes to the agent, or the plugin serves it itself (A§3.10). This file and what it imports is the way through
 * the socket, and all that a plugin on a node without agent loads; whatever else may become of a call is decided in `retry.ts`.
 */

import { type PreparedCall, prepareCall } from "../../handover/call.ts";
import { DO_IT_YOURSELF } from "../../handover/call-frame.ts";
import { runDirectoryOf } from "../../handover/run-directory.ts";
import type { Environment } from "../../lib/cni/protocol.ts";
import { closeFile, isThere } from "../../lib/system/files.ts";
import { askAgent, awaitAnswer, closeSandbox, type Outcome, type Way, wayOf, withOpenSandbox, withOwnIpam } from "./ask.ts";

export type { Way } from "./ask.ts";

export const NO_AGENT: Way = { kind: "no-agent" };
const OFF: Outcome = { kind: "absent", reason: "agent is off" };

/** The call that the forwarder has sent, unread, and whose answer it leaves to the program to wait for (forwarder/forwarder.c). */
export interface ForwardedCall {
  /** The connection. */
  readonly fd: number;
  /** How long the forwarder has waited. */
  readonly waitedMs: number;
}

/**
 * @param plugin version of the executable
 * @param readStdin may be called again by who serves the call in this process
 */
export async function forward(env: Environment, plugin: string, readStdin: () => Uint8Array, sent?: ForwardedCall): Promise<Way> {
  const prepared = prepareCall(env, readStdin);
  const isAwaited = sent !== undefined && prepared !== undefined && isForItsAgent(prepared);
  if (sent !== undefined && !isAwaited) closeFile(sent.fd);
  if (prepared === undefined) return NO_AGENT;
  const { settings, runDirectory } = prepared;
  // A call that was sent is the agent's, whatever has become of its files since.
  if (!isAwaited && !isThere(runDirectory.calls) && settings.mode !== "require" && !isThere(runDirectory.agentFile)) return NO_AGENT;
  const opened = withOpenSandbox({ ...prepared, plugin });
  if (opened === undefined) return NO_AGENT;
  const call = withOwnIpam(opened);
  const awaited = isAwaited ? await awaitAnswer(sent.fd, Math.max(0, settings.timeoutMs - sent.waitedMs)) : undefined;
  // The agent may want to hear what only this program can say, which has read the configuration.
  const isAnswered = awaited !== undefined && !(awaited.kind === "answer" && awaited.status === DO_IT_YOURSELF);
  const asking = isAnswered ? awaited : settings.mode === "off" ? OFF : askAgent(call, settings.timeoutMs);
  if (asking === undefined) {
    closeSandbox(call);
    return NO_AGENT;
  }
  const outcome = await asking;
  if (outcome.kind === "answer") {
    const way = wayOf(outcome, call);
    if (way !== undefined) return way;
  }
  const { retryOrFallBack } = await import("./retry.ts");
  return retryOrFallBack(call, outcome);
}

/** Says whether the forwarder has found the right agent, which it knows by its variable or by the default alone. */
function isForItsAgent({ settings, runDirectory, env }: PreparedCall): boolean {
  return settings.mode !== "off" && runDirectory.path === runDirectoryOf(env.TORTIE_SOCK || undefined).path;
}
