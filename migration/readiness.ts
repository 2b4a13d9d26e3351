/**
 * Pauses both stores of a migration, and remembers in its record which stores they are and what their ClusterInformation said before. With the
 * record, a migration that was killed is finished by the same command, and the stores become ready again. What is copied is not recorded:
 * comparing tells it.
 */

import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { dirname } from "node:path";
import { findInconsistencies } from "../doctor/check.ts";
import { readSnapshot } from "../doctor/snapshot.ts";
import { keepsForeignFields } from "../lib/datastore/calico/stored-kind.ts";
import type { Datastore, Versioned } from "../lib/datastore/datastore.ts";
import { isDatastoreFailure } from "../lib/datastore/errors.ts";
import type { ClusterInformation } from "../lib/datastore/resources.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { flag, isObject, parseObject, text } from "../lib/json/decode.ts";
import { writeWhole } from "../lib/system/write-whole.ts";

/** Is the readiness before the migration: `absent` without such an object. */
export type Readiness = boolean | "unsaid" | "absent";

/** Allows for others that write to the object as well. */
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

/** Makes a new object that says of the cluster what the other store says: its GUID, type and version. */
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

/** Exceeds what any ADD takes: the runtime's own limit is two to four minutes, ours 90 s for the addresses. */
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

export interface MigrationRecord {
  /** Words for the stores that stay the same from one start to the next. */
  readonly from: string;
  readonly to: string;
  readonly source: Readiness;
  readonly target: Readiness;
  /** Nothing foreign was found in the target, or it may be replaced: what differs there after a kill was written by the migration. */
  readonly isTargetOurs: boolean;
}

/** @returns `undefined` when no migration is under way @throws TortieError `migration-unfinished` when the file cannot be understood */
export function readRecord(path: string): MigrationRecord | undefined {
  let stored: string;
  try {
    stored = readFileSync(path, "utf8");
  } catch (error) {
    if (isObject(error) && error.code === "ENOENT") return undefined;
    throw unreadable(path, error);
  }
  try {
    const fields = parseObject(stored);
    return {
      from: text(fields, "from"),
      to: text(fields, "to"),
      source: readiness(fields.source),
      target: readiness(fields.target),
      isTargetOurs: flag(fields, "isTargetOurs"),
    };
  } catch (error) {
    throw unreadable(path, error);
  }
}

/** @throws Error of node:fs */
export function writeRecord(path: string, record: MigrationRecord): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  writeWhole(path, `${JSON.stringify(record)}\n`, 0o600);
}

export function removeRecord(path: string): void {
  rmSync(path, { force: true });
}

function readiness(value: unknown): Readiness {
  if (typeof value === "boolean" || value === "unsaid" || value === "absent") return value;
  throw new Error(`readiness ${JSON.stringify(value)} is not known`);
}

function unreadable(path: string, cause: unknown): TortieError {
  return new TortieError("migration-unfinished", `the record ${path} of a migration cannot be read: ${messageOf(cause)}`, { cause });
}
