/** One question to the judge: what is wrong on this node now? */
import type { Node, Pod } from "../node.ts";
import { lookAtNamespace, lookAtStore } from "./look.ts";
import { type Violation, violations } from "./violations.ts";
import type { Expected, Seen, SeenNamespace } from "./world.ts";

/**
 * @param sandboxes every sandbox that there is, also of containers that have no network of ours
 * @throws Error when a namespace or the store cannot be looked at
 */
export async function judge(node: Node, sandboxes: readonly Pod[], expected: Expected): Promise<readonly Violation[]> {
  const inside = new Map<string, SeenNamespace>();
  for (const { name, netnsPath } of sandboxes) inside.set(name, await lookAtNamespace(netnsPath));
  const seen: Seen = { host: await lookAtNamespace(node.netnsPath), sandboxes: inside, store: lookAtStore(node.datastorePath) };
  return violations(seen, expected);
}
