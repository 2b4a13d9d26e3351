/**
 * The installation of a node, step by step (C§9.3), and what it would do, without doing it. Everything is replaced whole, and the conflist comes
 * last: a runtime that finds it finds all that it names. Killed anywhere, the host has its old state or its new one, and both work.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { isThere, readText } from "../lib/system/files.ts";
import { copyExecutables, planExecutables } from "./executables.ts";
import { areEqual, removeWhole, whyNotWritable, writeWhole } from "./files.ts";
import { assertInCluster, isInPod, kubeconfigPath, kubeconfigText, requestToken, type Token } from "./kubeconfig.ts";
import { plannedList } from "./merge.ts";
import { noteInstalled, readRecord, remember, writeRecord } from "./record.ts";
import type { InstallSettings } from "./settings.ts";
import { renderConflist, TLS_FILES } from "./template.ts";
import { installTlsFiles, removeOtherTlsFiles, tlsDirectory } from "./tls-files.ts";

export type Log = (line: string) => void;

export interface Installed {
  /** Of the kubeconfig that was written; `undefined` outside of a pod. */
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
  const { netDir } = settings;
  const inPod = isInPod(settings);
  if (inPod) assertInCluster(settings.env);
  const reason = whyNotWritable(netDir);
  if (reason !== undefined) throw new TortieError("install-failed", `${netDir} cannot be written: ${reason}`);
  const executables = planExecutables(settings, log);
  remember(netDir, [...executables.map(({ target }) => target), ...filesOf(settings, inPod)]);
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

/** Files beside the conflist, which is among them unless it stays somebody else's; one of the former name is among them where it is there, because it goes. */
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

/** A new token in a new kubeconfig. @throws TortieError `install-token` */
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

/** The list that an installation would leave, to be judged before it begins. @throws TortieError `install-template` */
export function listToBe(settings: InstallSettings): string {
  return plannedList(settings, renderConflist(settings, tlsNames(settings.tlsDir))).text;
}

function tlsNames(tlsDir: string): ReadonlySet<string> {
  const there = isThere(tlsDir) ? readdirSync(tlsDir) : [];
  return new Set(Object.values(TLS_FILES).filter((name) => there.includes(name)));
}
