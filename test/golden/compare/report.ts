/** Differences in words, one line each, for failed tests and for people (`scripts/replay`). */
import type { Difference } from "./compare.ts";
import type { Json } from "./json.ts";

const LONGEST = 400;

export function describeDifference({ path, recorded, ours }: Difference): string {
  return `${path.join(" > ")}\n    recorded: ${show(recorded)}\n    ours:     ${show(ours)}`;
}

function show(value: Json | undefined): string {
  if (value === undefined) return "(nothing)";
  const text = JSON.stringify(value);
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}… (${text.length} characters)` : text;
}
