/** Writes figures, times and names of others as texts for people. */
import type { EndpointModel } from "../agent/api/endpoint-schema.ts";

/** Matches what could hide, reorder or break a line: controls, zero-width marks, and marks of direction (Unicode, UAX #9). */
// biome-ignore lint/suspicious/noControlCharactersInRegex: that is what is looked for
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
/** Exceeds the longest name of Kubernetes, with its namespace. */
const MOST_OF_A_TEXT = 400;

/** Makes a text of others harmless to look at: nothing of it is invisible, turns the line round, or fills the page. */
export function plain(text: string): string {
  const shown = text.slice(0, MOST_OF_A_TEXT).replaceAll(INVISIBLE, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);
  return text.length > MOST_OF_A_TEXT ? `${shown}… (${text.length} characters)` : shown;
}

/** Writes "65,536"; a power of two beyond 15 digits is easier to read as one. */
export function grouped(count: number | bigint): string {
  const exact = BigInt(count);
  if (exact < 10n ** 15n) return exact.toLocaleString("en");
  const exponent = exact.toString(2).length - 1;
  return exact === 1n << BigInt(exponent) ? `2^${exponent}` : `about 2^${(exact - 1n).toString(2).length}`;
}

/** Writes one decimal; a share above zero is never "0.0 %". */
export function percent(part: number | bigint, whole: number | bigint): string {
  const [some, all] = [BigInt(part), BigInt(whole)];
  if (all === 0n || some === 0n) return "0 %";
  const tenths = Number((some * 1000n) / all);
  return tenths === 0 ? "<0.1 %" : `${(tenths / 10).toFixed(1)} %`;
}

/** Writes "3 endpoints", "1 endpoint". */
export function counted(count: number | bigint, noun: string): string {
  return `${grouped(count)} ${noun}${BigInt(count) === 1n ? "" : "s"}`;
}

/** Writes a duration in the unit that has at most three digits before the point. */
export function duration(milliseconds: number): string {
  const units = [
    [86_400_000, "d"],
    [3_600_000, "h"],
    [60_000, "min"],
    [1_000, "s"],
  ] as const;
  for (const [size, unit] of units) {
    if (milliseconds >= size) return `${trimmed(milliseconds / size)} ${unit}`;
  }
  return `${trimmed(milliseconds)} ms`;
}

function trimmed(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toFixed(1).replace(/\.0$/, "");
}

/** Writes "2026-11-26 13:04:43.120" in UTC; what is no time stays as it is. */
export function moment(time: string): string {
  const at = Date.parse(time);
  return Number.isNaN(at) ? plain(time) : new Date(at).toISOString().replace("T", " ").replace("Z", "");
}

/** Names who is attached: the pod, or the container where there is none. */
export function workloadOf({ status }: EndpointModel): string {
  const { "k8s-pod-name": pod, "k8s-namespace": namespace, "container-id": container } = status["external-identifiers"];
  return pod === undefined ? container : `${namespace}/${pod}`;
}
