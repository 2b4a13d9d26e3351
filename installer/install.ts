/**
 * Installs Tortie on a node, step by step (C§9.3), or says what it would do. Everything is replaced whole, and the conflist comes last: a
 * runtime that finds it finds all that it names. Killed anywhere, the host has its old state or its new one, and both work.
 *
 * What a runtime calls by the main plugin's name is the forwarder (forwarder/forwarder.c). It stands in front of the program, which lies
 * beside it under that name and "-main". A build without a C compiler has no forwarder; the main plugin's name is the program's own then.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { directoryOf, isThere, readText, statusOf } from "../lib/system/files.ts";
import { areEqual, copyWhole, removeWhole, whyNotWritable, writeWhole } from "./files.ts";
import { assertInCluster, isInPod, kubeconfigPath, kubeconfigText, requestToken, type Token } from "./kubeconfig.ts";
import { lockInstallation } from "./lock.ts";
import { plannedList } from "./merge.ts";
import { noteInstalled, readRecord, recordPath, remember, writeRecord } from "./record.ts";
import type { InstallSettings } from "./settings.ts";
import { installTlsFiles, removeOtherTlsFiles, renderConflist, TLS_FILES, tlsDirectory } from "./template.ts";

export type Log = (line: string) => void;

export interface Installed {
  /** Belongs to the kubeconfig that was written; `undefined` outside of a pod. */
  readonly token: Token | undefined;
  /** What was said of the conflist that others have edited. */
  readonly remarks: readonly string[];
}

/** @throws TortieError `install-failed`, `install-template`, `install-token` */
export async function install(settings: InstallSettings, log: Log): Promise<Installed> {
  try {
    return await installStepByStep(settings, log);
  } catch (error) {
    if (error instanceof TortieError) throw error;
    throw new TortieError("install-failed", messageOf(error), { cause: error });
  }
}

async function installStepByStep(settings: InstallSettings, log: Log): Promise<Installed> {
  const { netDir, binDirs } = settings;
  const inPod = isInPod(settings);
  if (inPod) assertInCluster(settings.env);
  const reason = whyNotWritable(netDir);
  if (reason !== undefined) throw new TortieError("install-failed", `${netDir} cannot be written: ${reason}`);
  using lock = lockInstallation([netDir, ...binDirs]);
  const executables = planExecutables(settings, log);
  const paths = [...executables.map(({ target }) => target), ...filesOf(settings, inPod)];
  lock.removeRemains([...readRecord(netDir).files, ...paths, recordPath(netDir), tlsDirectory(netDir)]);
  remember(netDir, paths);
  const tls = installTlsFiles(settings, log);
  const conflist = renderConflist(settings, tls);
  copyExecutables(executables, log);
  noteInstalled(
    netDir,
    executables.map(({ target }) => target),
  );
  const token = inPod ? await installKubeconfig(settings, log) : undefined;
  const remarks = installConflist(settings, conflist, log);
  removeOtherTlsFiles(netDir, tls, log);
  return { token, remarks };
}

/**
 * Lists the files beside the conflist, which is among them unless it stays somebody else's; one of the former name is among them where it
 * is there, because it goes.
 */
function filesOf(settings: InstallSettings, inPod: boolean): readonly string[] {
  const { netDir, confName, oldConfName } = settings;
  const old = join(netDir, oldConfName);
  // Names of TLS files do not decide it.
  const { isKept } = plannedList(settings, renderConflist(settings, new Set()));
  return [
    ...Object.values(TLS_FILES).map((name) => join(tlsDirectory(netDir), name)),
    ...(inPod ? [kubeconfigPath(settings)] : []),
    ...(isKept ? [] : new Set([join(netDir, confName), ...(isThere(old) ? [old] : [])])),
  ];
}

/** Writes a new token in a new kubeconfig. @throws TortieError `install-token` */
export async function installKubeconfig(settings: InstallSettings, log: Log): Promise<Token> {
  const token = await requestToken(settings, log);
  const path = kubeconfigPath(settings);
  if (writeWhole(path, kubeconfigText(settings, token.token), 0o600)) {
    log(`${path} written; its token ends at ${new Date(token.expiresMs).toISOString()}`);
  }
  return token;
}

/**
 * Writes the conflist, with what others have added to it, and removes the one of the former name.
 * @param said remarks of the time before, which are not repeated
 * @returns remarks about what others have edited
 */
export function installConflist(settings: InstallSettings, text: string, log: Log, said: readonly string[] = []): readonly string[] {
  const { netDir, confName, oldConfName, confMode } = settings;
  const path = join(netDir, confName);
  const record = readRecord(netDir);
  const planned = plannedList(settings, text);
  for (const remark of planned.remarks) if (!said.includes(remark)) log(`${path}: ${remark}`);
  if (planned.isKept) return planned.remarks;
  if (writeWhole(path, planned.text, confMode)) log(`${path} written`);
  writeRecord(netDir, { ...record, conflist: text });
  if (oldConfName !== confName && removeWhole(join(netDir, oldConfName))) log(`${join(netDir, oldConfName)} removed`);
  return planned.remarks;
}

/** @returns one sentence a file @throws TortieError as `install` would before it has changed anything */
export function planInstallation(settings: InstallSettings): readonly string[] {
  const lines: string[] = [];
  const log = (line: string) => lines.push(line);
  for (const { from, target } of planExecutables(settings, log)) {
    log(areEqual(from, target) ? `${target} is up to date` : `would ${isThere(target) ? "replace" : "write"} ${target}`);
  }
  const tls = tlsNames(settings.tlsDir);
  for (const name of tls) log(`would install ${join(tlsDirectory(settings.netDir), name)}`);
  if (isInPod(settings)) log(`would write ${kubeconfigPath(settings)} with a new token`);
  const text = renderConflist(settings, tls);
  const path = join(settings.netDir, settings.confName);
  const reason = whyNotWritable(settings.netDir);
  if (reason !== undefined) log(`${settings.netDir} cannot be written (${reason}): the installation would fail`);
  const planned = plannedList(settings, text);
  for (const remark of planned.remarks) log(`${path}: ${remark}`);
  if (planned.isKept) return lines;
  log(isThere(path) && readText(path) === planned.text ? `${path} is up to date` : `would write ${path}`);
  const old = join(settings.netDir, settings.oldConfName);
  if (old !== path && isThere(old)) log(`would remove ${old}`);
  return lines;
}

/** Returns the list that an installation would leave, to be judged before it begins. @throws TortieError `install-template` */
export function listToBe(settings: InstallSettings): string {
  return plannedList(settings, renderConflist(settings, tlsNames(settings.tlsDir))).text;
}

function tlsNames(tlsDir: string): ReadonlySet<string> {
  const there = isThere(tlsDir) ? readdirSync(tlsDir) : [];
  return new Set(Object.values(TLS_FILES).filter((name) => there.includes(name)));
}

type Wanted = Pick<InstallSettings, "binDirs" | "names" | "source" | "pluginSource" | "skipped" | "updates">;

/** Describes one file to be put in place. */
interface Executable {
  readonly from: string;
  readonly target: string;
}

/**
 * Plans what is to be put into each directory that can be written. A runtime looks into one of them; which one is known to its configuration
 * alone.
 *
 * @throws TortieError `install-failed` when no directory can be written, and none has all that is needed
 */
export function planExecutables(wanted: Wanted, log: (line: string) => void): readonly Executable[] {
  const sources = [...own(wanted), ...additional(wanted)];
  const refusals: string[] = [];
  const plan: Executable[] = [];
  for (const directory of wanted.binDirs) {
    const reason = whyNotWritable(directory);
    if (reason !== undefined) {
      refusals.push(`${directory}: ${reason}`);
      log(`${directory} cannot be written (${reason}): left out`);
      continue;
    }
    for (const { name, from } of sources) {
      const target = join(directory, name);
      if (wanted.updates || !isThere(target)) plan.push({ from, target });
      else log(`${target} is there and stays (UPDATE_CNI_BINARIES=false)`);
    }
  }
  if (refusals.length === wanted.binDirs.length) assertComplete(wanted, refusals, log);
  return plan;
}

/** @throws TortieError `install-failed` when a copy does not succeed, or differs from its source (C§9.3, step 5) */
export function copyExecutables(plan: readonly Executable[], log: (line: string) => void): void {
  /** Has the first file that was installed from a source into a directory. */
  const first = new Map<string, string>();
  for (const { from, target } of plan) {
    const place = `${directoryOf(target)}:${from}`;
    try {
      if (copyWhole(from, target, { twin: first.get(place) })) log(`${target} installed`);
      first.getOrInsert(place, target);
    } catch (error) {
      throw new TortieError("install-failed", `${target} cannot be installed from ${from}: ${messageOf(error)}`);
    }
    if (!areEqual(from, target)) throw new TortieError("install-failed", `${target} differs from ${from} after it was copied`);
  }
}

interface Source {
  readonly name: string;
  readonly from: string;
}

/** Lists our own files, the forwarder last: it makes no call before its program is there. */
function own({ names, source }: Wanted): readonly Source[] {
  const { program, forwarder } = sourcesOf(source);
  const [main, ipam] = names.plugins;
  const programs = [forwarder === undefined ? main : programOf(main), ipam, ...names.tools].map((name) => ({ name, from: program }));
  return forwarder === undefined ? programs : [...programs, { name: main, from: forwarder }];
}

/** Lists the plugins that an image stages beside its own executable (C§9.1). */
function additional(wanted: Wanted): readonly Source[] {
  const { pluginSource, skipped } = wanted;
  if (!isThere(pluginSource)) return [];
  const ownNames = own(wanted).map(({ name }) => name);
  return readdirSync(pluginSource)
    .sort()
    .filter((name) => !name.startsWith("install") && !ownNames.includes(name) && !skipped.has(name))
    .map((name) => ({ name, from: join(pluginSource, name) }))
    .filter(({ from }) => statusOf(from)?.isFile === true);
}

/** Accepts, where the host keeps its directories read-only, executables that are there already, if settings allow it (I6, I7). */
function assertComplete({ binDirs, names: { plugins }, updates }: Wanted, refusals: readonly string[], log: (line: string) => void): void {
  const complete = binDirs.find((directory) => plugins.map((name) => join(directory, name)).every(isWhole));
  if (!updates && complete !== undefined) {
    log(`no directory can be written; ${complete} has ${plugins.join(" and ")} already`);
    return;
  }
  throw new TortieError("install-failed", `no directory for the executables can be written: ${refusals.join("; ")}`);
}

/** Tells whether a plugin is there, and not a forwarder without its program. */
function isWhole(plugin: string): boolean {
  return isThere(plugin) && (!isForwarder(plugin) || isThere(programOf(plugin)));
}

/** Marks the file: this text in it says what it is. */
const MARK = "TORTIE-FORWARDER ";
/** Excludes the program, which is a hundred times as large, from being read. */
const MOST_BYTES = 4 << 20;

/** Names the files to install from. */
interface Sources {
  readonly program: string;
  /** `undefined` where the build has none. */
  readonly forwarder: string | undefined;
}

/** @param source the program by one of its names, or the forwarder */
function sourcesOf(source: string): Sources {
  if (isForwarder(source)) return { program: programOf(source), forwarder: source };
  const beside = join(directoryOf(source), "tortie");
  return { program: source, forwarder: isForwarder(beside) ? beside : undefined };
}

/** Says where a forwarder finds its program. */
function programOf(forwarder: string): string {
  return `${forwarder}-main`;
}

export function isForwarder(path: string): boolean {
  const status = statusOf(path);
  return status?.isFile === true && status.size <= MOST_BYTES && readFileSync(path).includes(MARK);
}
