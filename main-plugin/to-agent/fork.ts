/**
 * Decides by the network configuration who serves a call: with `agent: require` the agent, otherwise this process (A§3.10). This file and its
 * imports are all that a plugin loads for the way through the socket; `retry.ts` decides about a call that the agent did not answer.
 */

import { type PreparedCall, prepareCall } from "../../handover/call.ts";
import { DO_IT_YOURSELF } from "../../handover/call-frame.ts";
import { runDirectoryOf } from "../../handover/run-directory.ts";
import type { Environment } from "../../lib/cni/protocol.ts";
import { closeFile } from "../../lib/system/files.ts";
import { askAgent, awaitAnswer, type Way, wayOf, withOpenSandbox, withOwnIpam } from "./ask.ts";

export type { Way } from "./ask.ts";

export const HERE: Way = { kind: "here" };

/** A call that the forwarder has sent, unread, and whose answer it leaves to the program to wait for (forwarder/forwarder.c). */
export interface ForwardedCall {
  /** Descriptor of the connection. */
  readonly fd: number;
  /** How long the forwarder has waited. */
  readonly waitedMs: number;
}

/** Longest wait for an answer to STATUS: kubelet calls its node NotReady after 30 s without one (pkg/kubelet/runtime.go). */
const STATUS_LIMIT_MS = 10_000;

/**
 * @param plugin version of the executable
 * @param readStdin may be called again by who serves the call in this process
 */
export async function forward(env: Environment, plugin: string, readStdin: () => Uint8Array, sent?: ForwardedCall): Promise<Way> {
  const prepared = prepareCall(env, readStdin);
  const isAwaited = sent !== undefined && prepared !== undefined && isForItsAgent(prepared);
  if (sent !== undefined && !isAwaited) closeFile(sent.fd);
  if (prepared === undefined || prepared.settings.mode === "off") return HERE;
  const { command, settings } = prepared;
  const limitMs = command === "STATUS" ? Math.min(settings.timeoutMs, STATUS_LIMIT_MS) : settings.timeoutMs;
  const call = withOwnIpam(withOpenSandbox({ ...prepared, plugin, limitMs }));
  const awaited = isAwaited ? await awaitAnswer(sent.fd, Math.max(0, limitMs - sent.waitedMs)) : undefined;
  // The agent may want to hear what only this program can say, which has read the configuration.
  const isAnswered = awaited !== undefined && !(awaited.kind === "answer" && awaited.status === DO_IT_YOURSELF);
  const outcome = isAnswered ? awaited : await askAgent(call, limitMs);
  const way = outcome.kind === "answer" ? wayOf(outcome) : undefined;
  if (way !== undefined) return way;
  const { retry } = await import("./retry.ts");
  return retry(call, outcome);
}

/** Says whether the forwarder has found the right agent, which it knows by its variable or by the default alone. */
function isForItsAgent({ settings, runDirectory, env }: PreparedCall): boolean {
  return settings.mode === "require" && runDirectory.path === runDirectoryOf(env.TORTIE_SOCK || undefined).path;
}
