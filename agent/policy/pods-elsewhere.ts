/**
 * Learns the labels of pods that are attached here and bound to another node: the copy of this node's pods never has them. Their ADD asks
 * once (gate.ts); of those that were attached before this agent began the API server is asked again, one after the other.
 */
import type { Pod } from "../../lib/kubernetes/objects.ts";
import { keyOf, type PolicyEndpoints } from "./endpoints.ts";

interface ElsewhereParts {
  readonly endpoints: Pick<PolicyEndpoints, "list" | "isKnown" | "learn">;
  /** @throws Error when it cannot be found out */
  readonly readPod: (key: string) => Promise<Pod | undefined>;
}

/** @returns what asks for each endpoint that is not known when it is called, and throws when it is to be called again: then for the rest only */
export function podsElsewhere({ endpoints, readPod }: ElsewhereParts): (signal: AbortSignal) => Promise<void> {
  const answered = new Set<string>();
  return async (signal) => {
    const failures: unknown[] = [];
    for (const { hostInterface, pod } of endpoints.list()) {
      if (pod === undefined || endpoints.isKnown(hostInterface) || answered.has(hostInterface)) continue;
      signal.throwIfAborted();
      try {
        const found = await readPod(keyOf(pod));
        answered.add(hostInterface);
        if (found !== undefined) endpoints.learn(hostInterface, found);
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  };
}
