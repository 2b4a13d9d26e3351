/** Undoes what an installation of this host did, and nothing else: the conflist first, so that no runtime calls what is gone. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { isThere } from "../lib/system/files.ts";
import { removeRemains, removeWhole } from "./files.ts";
import type { Log } from "./install.ts";
import { readRecord, recordPath, restoreFormer } from "./record.ts";
import { removeTlsRemains } from "./tls-files.ts";

/**
 * @param netDir where the record is
 * @param isDry only say what would be removed
 * @returns the files that were, or would be, removed
 * @throws TortieError `uninstall-failed`
 */
export function uninstall(netDir: string, isDry: boolean, log: Log): readonly string[] {
  return orNamed(() => undoAll(netDir, isDry, log));
}

function undoAll(netDir: string, isDry: boolean, log: Log): readonly string[] {
  const { files, formers } = readRecord(netDir);
  const ours = [...files].sort((one, other) => Number(isConflist(other)) - Number(isConflist(one)));
  const undone = ours.filter((path) => isThere(path) || formers.includes(path));
  for (const path of undone) {
    if (isDry) log(`would ${formers.includes(path) ? "put back what was at" : "remove"} ${path}`);
    else undo(path, formers.includes(path), log);
  }
  if (isDry) return undone;
  for (const path of [...files, recordPath(netDir)]) removeRemains(path);
  removeTlsRemains(netDir);
  removeWhole(recordPath(netDir));
  return undone;
}

/**
 * Takes the network configuration away, so that runtimes take the next one, and leaves what pods need that were added by it. Where there
 * is no other configuration nothing happens: a runtime without any deletes no pod.
 *
 * @throws TortieError `uninstall-failed`
 */
export function uninstallConflist(netDir: string, log: Log): void {
  const { files, formers } = readRecord(netDir);
  const ours = files.filter(isConflist);
  const isElsewhere = (name: string) => isConflist(name) && !ours.includes(join(netDir, name));
  const isReplaced = ours.some((path) => formers.includes(path)) || readdirSync(netDir).some(isElsewhere);
  if (!isReplaced) return;
  orNamed(() => {
    for (const path of ours) if (isThere(path)) undo(path, formers.includes(path), log);
  });
}

function orNamed<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new TortieError("uninstall-failed", messageOf(error), { cause: error });
  }
}

function undo(path: string, hasFormer: boolean, log: Log): void {
  if (!hasFormer) removed(path, log);
  else if (restoreFormer(path)) log(`${path} is what it was before`);
}

function removed(path: string, log: Log): void {
  if (removeWhole(path)) log(`${path} removed`);
}

function isConflist(path: string): boolean {
  return /\.(conf|conflist|json)$/.test(path);
}
