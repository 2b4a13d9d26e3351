/** Two questions to the judge: what is wrong on this node now, and what was left wrong when its test is over? */
import { existsSync, statSync } from "node:fs";
import type { Node, Pod } from "../node.ts";
import { violationsAtRest } from "./at-rest.ts";
import type { Ledger } from "./ledger.ts";
import { lookAtMachine, lookAtNamespace, lookAtStores, together } from "./look.ts";
import { unansweredAmong } from "./packets.ts";
import { doubled, type Violation, violation, violations } from "./violations.ts";
import { type Expected, NO_STORE, NOTHING_ALLOWED, type SeenNamespace, type SeenStore } from "./world.ts";

/**
 * @param sandboxes every sandbox that there is, also of containers that have no network of ours
 * @throws Error when a namespace cannot be looked at
 */
export async function judge(node: Node, sandboxes: readonly Pod[], expected: Expected, store: SeenStore): Promise<readonly Violation[]> {
  const inside = new Map<string, SeenNamespace>();
  for (const { name, netnsPath } of sandboxes) inside.set(name, await lookAtNamespace(netnsPath));
  const host = await lookAtNamespace(node.netnsPath);
  const unanswered = await unansweredAmong(sandboxes, expected.wanted);
  return violations({ host, sandboxes: inside, store, unanswered }, expected);
}

/** Something that holds addresses outside of a machine, as a cluster does. */
export interface StoreHolder {
  lookAtStore(): Promise<SeenStore>;
}

/** A pretend machine whose test is over. */
export interface Resting {
  readonly node: Pick<Node, "dir" | "name" | "netnsPath">;
  readonly sandboxes: readonly Pod[];
  readonly ledger: Ledger;
  readonly holders: readonly StoreHolder[];
}

/** What cannot be looked at is a violation too; a machine that is gone already was judged before. */
export async function judgeAtRest({ node, sandboxes, ledger, holders }: Resting): Promise<readonly Violation[]> {
  if (!existsSync(node.netnsPath)) return [];
  try {
    const there = differentOnes(node, sandboxes);
    const own = lookAtStores(node.dir) ?? (ledger.isEmpty ? undefined : NO_STORE);
    const stores = [...(own === undefined ? [] : [own]), ...(await Promise.all(holders.map((holder) => holder.lookAtStore())))];
    const machine = await lookAtMachine(node.name, there);
    // Links that a test of the dataplane made are nobody's.
    if (stores.length === 0) return doubled({ ...machine, store: NO_STORE }, NOTHING_ALLOWED);
    return violationsAtRest({ ...machine, store: together(stores) }, ledger.ended());
  } catch (error) {
    return [String(error)].map(violation("unseen"));
  }
}

/** Names of sandboxes that are there; of several whose paths lead to one namespace, the first, and none that leads to the host's. */
function differentOnes(node: Pick<Node, "netnsPath">, sandboxes: readonly Pod[]): string[] {
  const seen = new Set([statSync(node.netnsPath).ino]);
  return sandboxes.flatMap(({ name, netnsPath }) => {
    const { ino } = statSync(netnsPath, { throwIfNoEntry: false }) ?? {};
    if (ino === undefined || seen.has(ino)) return [];
    seen.add(ino);
    return [name];
  });
}
