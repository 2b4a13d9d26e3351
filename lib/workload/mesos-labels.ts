/** Labels that Mesos passes to a plain container, made into labels that Calico takes (C§2.6). */
import type { MesosLabel } from "../config/network-config.ts";

/** The raw key that moves the endpoint to another namespace instead of becoming a label. */
const NAMESPACE_KEY = "projectcalico.org/namespace";

export interface MesosMetadata {
  readonly labels: Readonly<Record<string, string>>;
  /** `undefined`: the identity's own namespace. */
  readonly namespace: string | undefined;
}

/** Later labels win over earlier ones of the same key. */
export function mesosMetadata(given: readonly MesosLabel[]): MesosMetadata {
  const labels = new Map<string, string>();
  let namespace: string | undefined;
  for (const { key, value } of given) {
    if (key === NAMESPACE_KEY) namespace = sanitizeLabel(value) || undefined;
    else if (key !== "") labels.set(sanitizeLabel(key), sanitizeLabel(value));
  }
  return { labels: Object.fromEntries(labels), namespace };
}

/**
 * "/" becomes ".", every other character outside of letters, digits, "-", "_" and "." becomes "-", a run of dots and dashes with a dot
 * in it becomes one dot, and none of both stays at either end (C§2.6 step 4).
 */
export function sanitizeLabel(text: string): string {
  const replaced = text
    .replaceAll("/", ".")
    .replaceAll(/[^-_.a-zA-Z0-9]/gu, "-")
    .replaceAll(/[-.]+/g, (run) => (run.includes(".") ? "." : run));
  let [from, to] = [0, replaced.length];
  while (from < to && isEdge(replaced[from])) from++;
  while (to > from && isEdge(replaced[to - 1])) to--;
  return replaced.slice(from, to);
}

function isEdge(character: string | undefined): boolean {
  return character === "-" || character === ".";
}
