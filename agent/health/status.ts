/** STATUS by the agent's own judgement (A§8.3, A§11.5): a node that is not ready says why, at once. */
import { TortieError } from "../../lib/errors/errors.ts";
import type { Health } from "../../lib/resident/health.ts";

/** @throws TortieError `status-unavailable` naming every reason */
export function checkStatus(health: Pick<Health, "notReady">): void {
  const reasons = health.notReady();
  if (reasons.length > 0) throw new TortieError("status-unavailable", `this node cannot add containers now: ${reasons.join("; ")}`);
}
