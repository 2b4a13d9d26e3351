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

/** For operations that refuse no value: a DEL must not fail over what only an ADD needs (design, invariant 4). */
export function ipamLockTimeoutMs(seconds: number): number {
  return Math.min(Math.max(seconds, MIN_SECONDS), MAX_SECONDS) * 1000;
}
