/** Undoes what an installation of this host did, and nothing else: the conflist first, so that no runtime calls what is gone. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { isAttachmentAlias } from "../dataplane/alias.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { directoryOf, ifReadable, isThere } from "../lib/system/files.ts";
import { type Clock, SYSTEM_CLOCK } from "../lib/system/waiting.ts";
import { removeWhole } from "./files.ts";
import type { Log } from "./install.ts";
import { hasEndedToken } from "./kubeconfig.ts";
import { isConflist } from "./lists.ts";
import { type InstallationLock, lockInstallation } from "./lock.ts";
import { dropFormer, hasFormer, type InstallRecord, isStillOurs, readFormer, readRecord, recordPath, restoreFormer } from "./record.ts";
import { removeEmptyTlsDirectory, tlsDirectory } from "./template.ts";

/**
 * @param netDir where the record is
 * @param isDry only say what would be removed
 * @returns the files that were, or would be, removed
 * @throws TortieError `uninstall-failed`
 */
export function uninstall(netDir: string, isDry: boolean, log: Log): readonly string[] {
  return orNamed(() => {
    if (isDry) return undoAll(netDir, log);
    using lock = locked(netDir);
    return undoAll(netDir, log, lock);
  });
}

function locked(netDir: string): InstallationLock {
  return lockInstallation([netDir, ...readRecord(netDir).files.map(directoryOf)]);
}

/** @param lock absent: nothing is removed */
function undoAll(netDir: string, log: Log, lock?: InstallationLock): readonly string[] {
  const record = readRecord(netDir);
  const { files, formers } = record;
  const ours = [...inOrder(files.filter(isConflist)), ...files.filter((path) => !isConflist(path))];
  const noted = ours.filter((path) => isThere(path) || formers.includes(path));
  const undone = noted.filter((path) => isStillOurs(path, record));
  for (const path of noted) {
    if (lock !== undefined) undo(path, record, log);
    else if (!undone.includes(path)) log(`would leave ${path}, which was put there after the installation`);
    else log(`would ${formers.includes(path) ? "put back what was at" : "remove"} ${path}`);
  }
  if (lock === undefined) return undone;
  lock.removeRemains([...files, recordPath(netDir), tlsDirectory(netDir)]);
  removeEmptyTlsDirectory(netDir);
  removeWhole(recordPath(netDir));
  return undone;
}

/**
 * Takes the network configuration away, so that runtimes take the next one, and leaves what pods need that were added by it. Without another
 * configuration nothing happens: a runtime that has none deletes no pod.
 *
 * @throws TortieError `uninstall-failed`
 */
export function uninstallConflist(netDir: string, log: Log): void {
  orNamed(() => {
    using _ = locked(netDir);
    const record = readRecord(netDir);
    const ours = record.files.filter(isConflist);
    const isElsewhere = (path: string) => isConflist(path) && (!ours.includes(path) || !isStillOurs(path, record));
    const isReplaced = ours.some(hasFormer) || readdirSync(netDir).some((name) => isElsewhere(join(netDir, name)));
    if (!isReplaced) return;
    for (const path of inOrder(ours)) undo(path, record, log);
  });
}

/** Orders the conflists: what was there before comes back before ours goes, because a runtime without any list deletes no pod. */
function inOrder(conflists: readonly string[]): readonly string[] {
  return conflists.toSorted((one, other) => Number(hasFormer(other)) - Number(hasFormer(one)));
}

function orNamed<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new TortieError("uninstall-failed", messageOf(error), { cause: error });
  }
}

function undo(path: string, record: InstallRecord, log: Log): void {
  const isReplacement = record.formers.includes(path);
  // Never touched, or put back by an earlier run.
  if (isReplacement && !hasFormer(path)) return;
  if (!isStillOurs(path, record)) {
    dropFormer(path);
    log(`${path} stays: it was put there after the installation`);
  } else if (!isReplacement) {
    if (removeWhole(path)) log(`${path} removed`);
  } else if (isThere(path) && hasEndedToken(readFormer(path), Date.now())) {
    // Others have renewed the token of this file since, by replacing it as we do: the old one would shut them out.
    dropFormer(path);
    log(`${path} stays: the token of the one before it has ended`);
  } else if (restoreFormer(path)) log(`${path} is what it was before`);
}

const LINKS = "/sys/class/net";
const LOOK_MS = 1_000;
/** Counts looks so that a line a minute says that it still waits. */
const LOOKS_A_LINE = 60;

/** Names the host ends that bear Tortie's alias (Documentation/ABI/testing/sysfs-class-net, `ifalias`). */
export function linksOfPods(folder = LINKS): readonly string[] {
  return readdirSync(folder).filter((name) => isAttachmentAlias(aliasOf(join(folder, name, "ifalias"))));
}

interface Wait {
  readonly links?: () => readonly string[];
  readonly clock?: Pick<Clock, "sleep">;
}

/** @returns whether none is left; `false` when the signal was raised first */
export async function untilNoPodIsLeft(
  log: Log,
  signal: AbortSignal,
  { links = linksOfPods, clock = SYSTEM_CLOCK }: Wait = {},
): Promise<boolean> {
  for (let looks = 0; !signal.aborted; looks += 1) {
    const { length } = links();
    if (length === 0) return true;
    if (looks % LOOKS_A_LINE === 0) log(`${length} pods of this host have a network of tortie's; waiting until they are gone`);
    await clock.sleep(LOOK_MS, signal);
  }
  return false;
}

/** Reads the alias of a link, which may go meanwhile. */
function aliasOf(path: string): string {
  return ifReadable(() => readFileSync(path, "utf8").trimEnd()) ?? "";
}
