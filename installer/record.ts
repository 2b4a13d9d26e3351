/**
 * Records what an installation has put on this host, and what it has replaced, so that `uninstall` undoes exactly that; and the conflist as
 * it was installed, so that one that others have edited since can be told. Kept beside the conflist under a name that no runtime reads.
 */
import { linkSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { field, isText, listOf, optional, parseObject } from "../lib/json/decode.ts";
import { parseJson } from "../lib/json/parse.ts";
import { isJsonObject, stringifyJson } from "../lib/json/value.ts";
import { isThere, readText, replaceFile, statusOf } from "../lib/system/files.ts";
import { removeWhole, writeWhole } from "./files.ts";
import { isOwnKubeconfig } from "./kubeconfig.ts";
import { isConflist } from "./lists.ts";
import { isKubeconfigName } from "./settings.ts";

/** Hides the record from libcni, which reads *.conf, *.conflist and *.json. */
const NAME = ".tortie-install";

export interface InstallRecord {
  /** Absolute paths, as the installer saw them. */
  readonly files: readonly string[];
  /** Those of them, or of removed files, whose path held another program's file before; `formerOf` has it. */
  readonly formers: readonly string[];
  /** Executables as they were installed, path → `fingerprintOf`; one that is being replaced has none. */
  readonly installed: Readonly<Record<string, string>>;
  /** The conflist's text as it was installed; absent before the first one was written. */
  readonly conflist?: string;
}

export function recordPath(netDir: string): string {
  return join(netDir, NAME);
}

/** @returns an empty record where nothing was installed, or where what is there cannot be read */
export function readRecord(netDir: string): InstallRecord {
  try {
    const stored = parseObject(readText(recordPath(netDir)));
    return {
      files: field(stored, "files", listOf(isText)),
      formers: field(stored, "formers", listOf(isText)),
      installed: mapped(optional(stored, "installed", isTexts).installed ?? {}, withoutDevice),
      ...optional(stored, "conflist", isText),
    };
  } catch {
    return { files: [], formers: [], installed: {} };
  }
}

/** Writes the record before what it names: an installer that dies leaves nothing that the record does not know. */
export function writeRecord(netDir: string, { files, formers, installed, conflist }: InstallRecord): void {
  const lists = { files: [...new Set(files)].sort(), formers: [...new Set(formers)].sort() };
  const text = stringifyJson({ format: 1, ...lists, installed, conflist }, 2);
  writeWhole(recordPath(netDir), `${text}\n`, 0o600);
}

/**
 * Notes files that are about to be written or removed; another program's file is kept beside its place under another name. What is noted
 * without having such a name has not been touched yet: the installer died before it came so far.
 */
export function remember(netDir: string, paths: readonly string[]): void {
  const record = readRecord(netDir);
  const foreign = paths.filter((path) => !record.files.includes(path) && isThere(path));
  const formers = [...record.formers, ...foreign];
  const installed = Object.fromEntries(Object.entries(record.installed).filter(([path]) => !paths.includes(path)));
  writeRecord(netDir, { ...record, files: [...record.files, ...paths], formers, installed });
  for (const path of formers) {
    if (!isThere(formerOf(path)) && isThere(path)) linkSync(path, formerOf(path));
  }
}

/** Notes what executables look like once they are in their places, so that one which another program replaces can be told. */
export function noteInstalled(netDir: string, paths: readonly string[]): void {
  const record = readRecord(netDir);
  const seen = paths.flatMap((path) => {
    const fingerprint = fingerprintOf(path);
    return fingerprint === undefined ? [] : [[path, fingerprint] as const];
  });
  writeRecord(netDir, { ...record, installed: { ...record.installed, ...Object.fromEntries(seen) } });
}

/**
 * Changes with every replacement, since files come into their places by rename(2). The device does not belong to it: btrfs and overlayfs
 * give it another number at each mount.
 * @returns `undefined` when nothing is there
 */
function fingerprintOf(path: string): string | undefined {
  const status = statusOf(path);
  return status && withoutDevice(`${status.identity} ${status.size} ${status.modified}`);
}

/** Drops the device, which earlier installers noted before a ":". */
function withoutDevice(fingerprint: string): string {
  return fingerprint.slice(fingerprint.indexOf(":") + 1);
}

function mapped(texts: Readonly<Record<string, string>>, change: (text: string) => string): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, change(text)]));
}

export function hasFormer(path: string): boolean {
  return isThere(formerOf(path));
}

/** @throws SystemError when it is missing */
export function readFormer(path: string): string {
  return readText(formerOf(path));
}

/** Gives up what was at `path` before the installation. */
export function dropFormer(path: string): void {
  removeWhole(formerOf(path));
}

/** Puts another program's file back in its place. @returns whether there was one */
export function restoreFormer(path: string): boolean {
  const former = statusOf(formerOf(path));
  if (former === undefined) return false;
  // Never replaced: rename(2) of two names of one file does nothing.
  if (former.identity === statusOf(path)?.identity) removeWhole(formerOf(path));
  else replaceFile(formerOf(path), path);
  return true;
}

function isTexts(value: unknown): value is Readonly<Record<string, string>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && Object.values(value).every(isText);
}

/** Names what is neither a plugin nor a configuration for any runtime; a hard link, so that nothing is copied. */
function formerOf(path: string): string {
  return join(dirname(path), `.${basename(path)}.before-tortie`);
}

/** @throws SystemError when a file that is there cannot be read */
export function isStillOurs(path: string, { installed, conflist }: Pick<InstallRecord, "installed" | "conflist">): boolean {
  if (!isThere(path)) return true;
  if (isKubeconfigName(basename(path))) return isOwnKubeconfig(readText(path));
  if (isConflist(path)) return conflist === undefined || isListOfOurs(readText(path), conflist);
  const fingerprint = installed[path];
  return fingerprint === undefined || fingerprint === fingerprintOf(path);
}

/** Knows our list by its main plugin, since others may have edited it. One that cannot be read is nobody else's. */
function isListOfOurs(text: string, installed: string): boolean {
  const [main] = typesOf(installed) ?? [];
  const types = typesOf(text);
  return main === undefined || types === undefined || types.includes(main);
}

function typesOf(text: string): readonly string[] | undefined {
  try {
    const list = parseJson(text);
    if (!isJsonObject(list)) return undefined;
    const plugins = Array.isArray(list.plugins) ? list.plugins : [list];
    return plugins.flatMap((plugin) => (isJsonObject(plugin) && typeof plugin.type === "string" ? plugin.type : []));
  } catch {
    return undefined;
  }
}
