/**
 * Runs a whole migration: pauses both stores, makes the target equal to the source, and gives both back the readiness they had before.
 * Copying and verifying are one loop: everything of both stores is read and compared, what differs is written, until nothing differs. So it
 * may be killed at any point and started again.
 */
import { refuseOverlaps } from "../ipam-plugin/allocator/overlap.ts";
import type { Datastore } from "../lib/datastore/datastore.ts";
import { LOCAL_TRAITS } from "../lib/datastore/datastore.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { differenceOf, isEqual, isForeign, type KindDifference, writeDifference, writesOf } from "./difference.ts";
import { KINDS } from "./kinds.ts";
import {
  awaitRunningAdds,
  type MigrationRecord,
  pause,
  type Readiness,
  readReadiness,
  readRecord,
  removeRecord,
  say,
  writeRecord,
} from "./readiness.ts";

/** Has a store, and words for it that stay the same from one start to the next. */
export interface Side {
  readonly datastore: Datastore;
  readonly identity: string;
  /** What its lists had to leave out so far. */
  readonly unreadable: ReadonlySet<string>;
}

interface MigrationOptions {
  /** What the target has that differs from the source is replaced or removed. */
  readonly overwrite: boolean;
  readonly recordPath: string;
  /** For ADDs that began before. */
  readonly waitMs: number;
  /**
   * Passes between the pause and the first look: an ADD that has just asked whether it may begin, and agents whose watch of
   * ClusterInformation is silent, which they notice after 45 s at the latest (A§11.7).
   */
  readonly settleMs: number;
  readonly nowMs: () => number;
  readonly signal: AbortSignal;
  /** Objects of a kind that are written, of so many. */
  readonly onProgress: (kind: string, done: number, all: number) => void;
}

interface MigrationReport {
  /** Has the last comparison: nothing is missing or differs. */
  readonly kinds: readonly KindDifference[];
  /** Objects written or removed, by the name of the kind. */
  readonly written: ReadonlyMap<string, number>;
}

/** Comparisons, the last of which finds nothing: deletions may go on while the stores are paused, if only they began before. */
const MOST_ROUNDS = 6;

/**
 * @throws TortieError `blocks-overlap`, `migration-target-differs`, `migration-add-running`, `migration-moving`, `migration-unfinished`,
 * `datastore-object-invalid`; DatastoreError; the signal's reason
 */
export async function migrate(source: Side, target: Side, options: MigrationOptions): Promise<MigrationReport> {
  const { recordPath, settleMs, waitMs, nowMs, signal } = options;
  refuseOverlaps(await source.datastore.blocks.listCidrs());
  const record = resumedRecord(source, target, recordPath) ?? {
    from: source.identity,
    to: target.identity,
    source: await readReadiness(source.datastore),
    target: await readReadiness(target.datastore),
    isTargetOurs: options.overwrite,
  };
  writeRecord(recordPath, record);
  try {
    await pause(source.datastore);
    await pause(target.datastore);
    await Bun.sleep(settleMs);
    await awaitRunningAdds(source.datastore, { nowMs, waitMs, signal });
    if (!record.isTargetOurs && !options.overwrite) assertNothingForeign(await compareStores(source, target));
    // What differs from now on was written by this migration, or is to be replaced.
    writeRecord(recordPath, { ...record, isTargetOurs: true });
    const report = await copyUntilEqual(source, target, options);
    await say(target.datastore, readinessAfter(record, source.datastore), source.datastore);
    await say(source.datastore, record.source);
    removeRecord(recordPath);
    return report;
  } catch (error) {
    await resumeBoth(source, target, record, error);
    removeRecord(recordPath);
    throw error;
  }
}

/**
 * Reads and compares everything.
 * @param target absent: a local store that is still to be made
 * @throws TortieError `datastore-object-invalid`; DatastoreError
 */
export async function compareStores(source: Side, target: Side | undefined): Promise<readonly KindDifference[]> {
  const found: KindDifference[] = [];
  const sides = { source: source.datastore.traits, target: target?.datastore.traits ?? LOCAL_TRAITS };
  for (const kind of KINDS) {
    const ours = await kind.read(source.datastore, sides);
    const theirs = target === undefined ? [] : await kind.read(target.datastore, sides);
    found.push(differenceOf(kind, ours, theirs, sides));
  }
  for (const { unreadable } of target === undefined ? [source] : [source, target]) {
    const [first] = unreadable;
    if (first !== undefined) throw new TortieError("datastore-object-invalid", `nothing is migrated past what cannot be read: ${first}`);
  }
  return found;
}

/** @throws TortieError `migration-target-differs` */
function assertNothingForeign(differences: readonly KindDifference[]): void {
  const foreign = differences.filter(isForeign);
  if (foreign.length === 0) return;
  const named = foreign.flatMap(({ kind, differing, extra }) => [
    ...differing.slice(0, 3).map(({ object }) => `${kind.name} ${object.id} differs`),
    ...extra.slice(0, 3).map(({ id }) => `${kind.name} ${id} is in the target alone`),
  ]);
  const count = foreign.reduce((sum, { differing, extra }) => sum + differing.length + extra.length, 0);
  throw new TortieError(
    "migration-target-differs",
    `the target holds ${count} other objects than the source: ${named.join("; ")}${named.length < count ? "; …" : ""}`,
  );
}

async function copyUntilEqual(source: Side, target: Side, { signal, onProgress }: MigrationOptions): Promise<MigrationReport> {
  const written = new Map<string, number>();
  for (let round = 1; round <= MOST_ROUNDS; round++) {
    signal.throwIfAborted();
    const kinds = await compareStores(source, target);
    if (kinds.every(isEqual)) return { kinds, written };
    for (const difference of kinds) {
      const { name } = difference.kind;
      const all = writesOf(difference);
      if (all === 0) continue;
      let done = 0;
      const onWritten = () => onProgress(name, ++done, all);
      await writeDifference(difference, { target: target.datastore, signal, onWritten });
      written.set(name, (written.get(name) ?? 0) + all);
    }
  }
  throw new TortieError("migration-moving", `the stores still differ after ${MOST_ROUNDS} comparisons: one of them is being written to`);
}

/** Reads the record; a migration of other stores comes first, whose stores are paused. @throws TortieError `migration-unfinished` */
function resumedRecord(source: Side, target: Side, path: string): MigrationRecord | undefined {
  const record = readRecord(path);
  if (record === undefined || (record.from === source.identity && record.to === target.identity)) return record;
  throw new TortieError("migration-unfinished", `the migration from ${record.from} to ${record.to} is not finished (${path})`);
}

/** Returns the target's readiness; one that said nothing before is as ready as the source was. */
function readinessAfter({ source, target }: MigrationRecord, { traits }: Datastore): Readiness {
  if (target !== "absent") return target;
  return source === "absent" || source === "unsaid" ? traits.poolsFrom === "netconf" : source;
}

/** Resumes both stores. Where this fails, the record stays for the next start. @throws TortieError `migration-left-paused` */
async function resumeBoth(source: Side, target: Side, record: MigrationRecord, error: unknown): Promise<void> {
  const sides = [source, target].map(({ datastore }) => say(datastore, datastore === source.datastore ? record.source : record.target));
  for (const outcome of await Promise.allSettled(sides)) {
    if (outcome.status === "fulfilled") continue;
    const message = `${messageOf(error)}; then a datastore could not be made ready again: ${messageOf(outcome.reason)}`;
    throw new TortieError("migration-left-paused", message, { cause: error });
  }
}
