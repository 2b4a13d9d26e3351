/** What an installation would do, without doing it: probes whether directories can be written, and writes nothing else. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { isThere, readText } from "../lib/system/files.ts";
import { planExecutables } from "./executables.ts";
import { areEqual, whyNotWritable } from "./files.ts";
import { isInPod, kubeconfigPath } from "./kubeconfig.ts";
import { plannedList } from "./planned-list.ts";
import type { InstallSettings } from "./settings.ts";
import { renderConflist, TLS_FILES } from "./template.ts";
import { tlsDirectory } from "./tls-files.ts";

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
