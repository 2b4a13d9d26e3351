/** ClusterInformation's `datastoreReady`, by which plugins on every node refuse to add and to delete pods (C§2.1 step 8). */

import { findInconsistencies } from "../doctor/check.ts";
import { readSnapshot } from "../doctor/snapshot.ts";
import { keepsForeignFields } from "../lib/datastore/calico/stored-kind.ts";
import type { Datastore, Versioned } from "../lib/datastore/datastore.ts";
import { isDatastoreFailure } from "../lib/datastore/errors.ts";
import type { ClusterInformation } from "../lib/datastore/resources.ts";
import { TortieError } from "../lib/errors/errors.ts";

/** The readiness before the migration: `absent` where there was no such object. */
export type Readiness = boolean | "unsaid" | "absent";

/** Others write to the object as well. */
const TRIES = 10;

/** Says that no pods are to be added. @returns the readiness before @throws DatastoreError */
export async function pause(store: Datastore): Promise<Readiness> {
  const before = await readReadiness(store);
  if (before !== false) await say(store, false);
  return before;
}

export async function readReadiness({ clusterInformation }: Datastore): Promise<Readiness> {
  const found = await clusterInformation.get("default");
  return found === undefined ? "absent" : (found.value.datastoreReady ?? "unsaid");
}

/** Restores the readiness that was there before. @throws DatastoreError */
export async function say(store: Datastore, readiness: Readiness, like?: Datastore): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await sayOnce(store, readiness, like);
    } catch (error) {
      if (tries === TRIES || !isDatastoreFailure(error, "conflict", "already-exists", "not-found")) throw error;
    }
  }
}

async function sayOnce(store: Datastore, readiness: Readiness, like: Datastore | undefined): Promise<void> {
  const { clusterInformation } = store;
  const found = await clusterInformation.get("default");
  if (readiness === "absent") {
    if (found !== undefined) await clusterInformation.delete("default", found.revision);
    return;
  }
  const value: ClusterInformation = { datastoreReady: readiness === "unsaid" ? undefined : readiness };
  if (found?.value.datastoreReady === value.datastoreReady && found !== undefined) return;
  if (found !== undefined) await clusterInformation.update("default", value, found.revision);
  else await create(store, value, like);
}

/** A new object says of the cluster what the other store says: its GUID, type and version. */
async function create({ clusterInformation: to }: Datastore, value: ClusterInformation, like: Datastore | undefined): Promise<void> {
  const from = like?.clusterInformation;
  const model: Versioned<ClusterInformation> | undefined = await from?.get("default");
  const foreign =
    from !== undefined && model !== undefined && keepsForeignFields<"default", ClusterInformation>(from)
      ? from.foreignFields("default", model.revision)
      : undefined;
  if (foreign !== undefined && keepsForeignFields<"default", ClusterInformation>(to)) await to.createWith("default", value, foreign);
  else await to.create("default", value);
}

/** No ADD takes longer: the runtime's own limit is two to four minutes, ours 90 s for the addresses. */
const LONGEST_ADD_MS = 120_000;
const LOOK_EVERY_MS = 500;

interface Patience {
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
