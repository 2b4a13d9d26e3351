/**
 * The fork in the road (A§3.10): a call goes to the agent, or the plugin serves it itself. This file and what it imports is the way through
 * the socket, and all that a plugin on a node without agent loads; whatever else may become of a call is decided in `without-answer.ts`.
 */
import type { Environment } from "../../lib/cni/variables.ts";
import { closeFile, isThere } from "../../lib/system/files.ts";
import { runDirectoryOf } from "../run-directory/run-directory.ts";
import { awaitAnswer, type Outcome } from "./ask.ts";
import { DO_IT_YOURSELF } from "./call-frame.ts";
import { askAgent, DIRECT, type Way, wayOf } from "./exchange.ts";
import { closeSandbox, type PreparedCall, prepareCall, withOpenSandbox, withOwnIpam } from "./prepared-call.ts";

export type { Way } from "./exchange.ts";

const OFF: Outcome = { kind: "absent", reason: "agent is off" };

/** A call that the forwarder has sent, unread, and whose answer it leaves to the program to wait for (forwarder/forwarder.c). */
export interface SentCall {
  /** The connection. */
  readonly fd: number;
  /** How long the forwarder has waited. */
  readonly waitedMs: number;
}

/**
 * @param version of the executable
 * @param readStdin may be called again by who serves the call in this process
 */
export async function forward(env: Environment, version: string, readStdin: () => Uint8Array, sent?: SentCall): Promise<Way> {
  const prepared = prepareCall(env, version, readStdin);
  const isAwaited = sent !== undefined && prepared !== undefined && isForItsAgent(prepared);
  if (sent !== undefined && !isAwaited) closeFile(sent.fd);
  if (prepared === undefined) return DIRECT;
  const { settings, runDirectory } = prepared;
  // A call that was sent is the agent's, whatever has become of its files since.
  if (!isAwaited && !isThere(runDirectory.calls) && settings.mode !== "require" && !isThere(runDirectory.agentFile)) return DIRECT;
  const opened = withOpenSandbox(prepared);
  if (opened === undefined) return DIRECT;
  const call = withOwnIpam(opened);
  const awaited = isAwaited ? await awaitAnswer(sent.fd, Math.max(0, settings.timeoutMs - sent.waitedMs)) : undefined;
  // The agent may want to hear what only this program can say, which has read the configuration.
  const isAnswered = awaited !== undefined && !(awaited.kind === "answer" && awaited.status === DO_IT_YOURSELF);
  const asking = isAnswered ? awaited : settings.mode === "off" ? OFF : askAgent(call, settings.timeoutMs);
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

/** The forwarder knows an agent by its variable or by the default alone. */
function isForItsAgent({ settings, runDirectory, env }: PreparedCall): boolean {
  return settings.mode !== "off" && runDirectory.path === runDirectoryOf(env.TORTIE_SOCK || undefined).path;
}
