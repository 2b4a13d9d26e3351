/** Sets defaults and limits of the keys `agent*` (A§3.10), apart from the decoder: the way to the agent does not load that. */

import type { CniCommand, Environment } from "../cni/protocol.ts";

/** Owners of a network's attachments on a node: the agent, or (`off`, the default) the plugins. */
export const AGENT_MODES = ["require", "off"] as const;
export type AgentMode = (typeof AGENT_MODES)[number];

/** Longest wait of an ADD or CHECK for the agent's socket. */
export const DEFAULT_AGENT_WAIT_SECONDS = 15;
/** With the limit of the call itself it stays below the four minutes after which kubelet gives a sandbox up. */
const MAX_AGENT_WAIT_SECONDS = 200;
/** The longest wait for the agent's answer. */
export const DEFAULT_AGENT_TIMEOUT_SECONDS = 90;
/** The agent ends a call a second before that, and needs some time for it. */
const MIN_AGENT_TIMEOUT_SECONDS = 2;
/** Container runtimes kill a plugin after 120 s, and a killed plugin cannot say what it waited for. */
const MAX_AGENT_TIMEOUT_SECONDS = 115;

interface AgentLimits {
  readonly waitSeconds: number;
  readonly timeoutSeconds: number;
}

/** @returns what is wrong with a value, `undefined` when nothing is */
export function problemOfAgentLimits({ waitSeconds, timeoutSeconds }: AgentLimits): string | undefined {
  if (waitSeconds < 0 || waitSeconds > MAX_AGENT_WAIT_SECONDS) {
    return `agent_wait_seconds must be 0 to ${MAX_AGENT_WAIT_SECONDS}, not ${waitSeconds}`;
  }
  if (timeoutSeconds < MIN_AGENT_TIMEOUT_SECONDS || timeoutSeconds > MAX_AGENT_TIMEOUT_SECONDS) {
    return `agent_timeout_seconds must be ${MIN_AGENT_TIMEOUT_SECONDS} to ${MAX_AGENT_TIMEOUT_SECONDS}, not ${timeoutSeconds}`;
  }
  return undefined;
}

/** Default and limits of `ipam_lock_timeout_seconds`, the longest wait for the node's lock (I§1.8). */
export const DEFAULT_IPAM_LOCK_TIMEOUT_SECONDS = 90;
const MIN_SECONDS = 1;
/** Container runtimes kill a plugin after 120 s, and a killed plugin cannot say what it waited for. */
const MAX_SECONDS = 115;

/** @returns what is wrong with the value, `undefined` when nothing is */
export function problemOfIpamLockTimeout(seconds: number): string | undefined {
  if (seconds >= MIN_SECONDS && seconds <= MAX_SECONDS) return undefined;
  return `ipam_lock_timeout_seconds must be ${MIN_SECONDS} to ${MAX_SECONDS}, not ${seconds}`;
}

/** Serves operations that refuse no value: a DEL must not fail over what only an ADD needs (design, invariant 4). */
export function ipamLockTimeoutMs(seconds: number): number {
  return Math.min(Math.max(seconds, MIN_SECONDS), MAX_SECONDS) * 1000;
}

/**
 * Requests a second of what works on thousands of objects, GC and `tortiectl ipam`, unless a person has set another rate. The client's
 * default suits a plugin that serves one pod.
 */
export const BULK_RATE: Environment = { K8S_CLIENT_QPS: "100" };

/** Returns the environment that the datastore's client of a call is opened with. */
export function clientEnvironment(command: CniCommand, env: Environment): Environment {
  return command === "GC" ? { ...BULK_RATE, ...env } : env;
}
