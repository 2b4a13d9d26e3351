/** Whether pods are still being added: an ADD allocates the address first and writes its endpoint last. */
import { findInconsistencies } from "../doctor/check.ts";
import { readSnapshot } from "../doctor/snapshot.ts";
import type { Datastore } from "../lib/datastore/datastore.ts";
import { TortieError } from "../lib/errors/errors.ts";

/** No ADD takes longer: the runtime's own limit is two to four minutes, ours 90 s for the addresses. */
const LONGEST_ADD_MS = 120_000;
const LOOK_EVERY_MS = 500;

export interface Patience {
  readonly nowMs: () => number;
  /** How long an ADD may go on. */
  readonly waitMs: number;
  readonly signal: AbortSignal;
}

/** Waits for ADDs that began before the stores were paused. @throws TortieError `migration-add-running`; DatastoreError */
export async function awaitRunningAdds(store: Datastore, { nowMs, waitMs, signal }: Patience): Promise<void> {
  const end = performance.now() + waitMs;
  for (;;) {
    const judgement = { nowMs: nowMs(), graceMs: LONGEST_ADD_MS, isStrict: false };
    const [running] = findInconsistencies(await readSnapshot(store), judgement).filter(
      ({ kind, severity }) => kind === "address-unused" && severity === "note",
    );
    if (running === undefined) return;
    if (performance.now() >= end) {
      throw new TortieError("migration-add-running", `a pod is being added: ${running.object} ${running.message}`);
    }
    signal.throwIfAborted();
    await Bun.sleep(LOOK_EVERY_MS);
  }
}
