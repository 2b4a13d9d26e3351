/** Paths of keys: as steps, and as people write them. */
import type { Step } from "../../lib/json/position.ts";

/** `plugins[0].ipam.type`; a key with other characters stands in brackets, `annotations["a.b/c"]`. */
export function formatPath(path: readonly Step[]): string {
  let text = "";
  for (const step of path) {
    if (typeof step === "number") text += `[${step}]`;
    else if (!/^[\w-]+$/.test(step)) text += `[${JSON.stringify(step)}]`;
    else text += text === "" ? step : `.${step}`;
  }
  return text;
}

/**
 * The steps of a path as errors of lib/config name it, "ipam.pools[0].cidr". A key may hold dots itself, so that the value decides where
 * one ends; of a part that is not in the value nothing is said.
 */
export function stepsOf(value: unknown, path: string): readonly Step[] {
  const steps: Step[] = [];
  let inside = value;
  let rest = path;
  while (rest !== "") {
    const index = /^\[(\d+)\]\.?/.exec(rest);
    if (index !== null && Array.isArray(inside)) {
      const at = Number(index[1]);
      steps.push(at);
      inside = inside[at];
      rest = rest.slice(index[0].length);
      continue;
    }
    if (typeof inside !== "object" || inside === null) break;
    const entry = Object.entries(inside).find(([key]) => rest === key || rest.startsWith(`${key}.`) || rest.startsWith(`${key}[`));
    if (entry === undefined) break;
    steps.push(entry[0]);
    inside = entry[1];
    rest = rest.slice(entry[0].length).replace(/^\./, "");
  }
  return steps;
}
