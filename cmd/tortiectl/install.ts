/** Runs `tortiectl install` and `tortiectl uninstall`: the preflight, then the installer; says what was done, for people or as JSON. */

import { listToBe, planInstallation } from "../../installer/install.ts";
import { type Finding, needsOfList, preflight } from "../../installer/preflight.ts";
import { CONTAINER_PATHS, readInstallSettings, TORTIE_NAMES } from "../../installer/settings.ts";
import { uninstall, uninstallConflist, untilNoPodIsLeft } from "../../installer/uninstall.ts";
import { runInstaller } from "../../installer/watch.ts";
import { NEVER, SYSTEM_CLOCK } from "../../lib/system/waiting.ts";
import { endOfProcess, type Terminal } from "./terminal.ts";

interface InstallOptions {
  readonly binDir: readonly string[];
  readonly netDir: string;
  readonly source: string;
  readonly plugins: string | undefined;
  readonly conflist: string;
  readonly dryRun: boolean;
  readonly watch: boolean;
  readonly healthPort: number | undefined;
  readonly force: boolean;
  readonly json: boolean;
}

/** @returns exit status: 1 when the host lacks something (unless --force), or the installation fails */
export async function installHere(options: InstallOptions, terminal: Terminal): Promise<number> {
  const lines: string[] = [];
  const log = (line: string) => {
    lines.push(line);
    if (!options.json) terminal.out(line);
  };
  const paths = {
    ...CONTAINER_PATHS,
    source: options.source,
    pluginSource: options.plugins ?? "",
    binDirs: options.binDir,
    netDir: options.netDir,
  };
  const env = { ...process.env, CNI_NET_DIR: process.env.CNI_NET_DIR ?? options.netDir, SLEEP: String(options.watch) };
  const read = readInstallSettings(env, paths, TORTIE_NAMES, options.conflist);
  const settings = { ...read, keepsLists: read.keepsLists && !options.force };
  const findings = [...preflight(settings), ...needsOfList(listToBe(settings), settings)];
  for (const finding of findings) log(sentence(finding, terminal));
  const isLacking = findings.some(({ severity }) => severity === "missing");
  if (isLacking && !options.force) log("nothing was installed: the host lacks what is marked above (--force installs all the same)");
  else if (options.dryRun) for (const line of planInstallation(settings)) log(line);
  else await runInstaller(settings, { log, healthPort: options.healthPort });
  if (options.json) terminal.out(JSON.stringify({ findings, lines }, undefined, 2));
  return isLacking && !options.force ? 1 : 0;
}

/** Passes between two wakes of a process that only stays. */
const STAY_MS = 3_600_000;

interface UninstallOptions {
  readonly netDir: string;
  readonly dryRun: boolean;
  /** Executables stay until no pod of this host has a network of Tortie's. */
  readonly wait: boolean;
  /** Do not end when it is done: a DaemonSet would start it again. */
  readonly stay: boolean;
  readonly json: boolean;
  /** Of an agent that may still be there. */
  readonly socket: string;
}

/** @returns exit status: 1 when it was asked to end before it was done, or something fails */
export async function uninstallHere({ netDir, dryRun, wait, stay, json, socket }: UninstallOptions, terminal: Terminal): Promise<number> {
  const log = (line: string) => (json ? undefined : terminal.out(line));
  const end = wait || stay ? endOfProcess() : NEVER;
  if (wait && !dryRun) {
    uninstallConflist(netDir, log);
    if (!(await untilNoPodIsLeft(log, end))) return 1;
  }
  const undone = uninstall(netDir, dryRun, log);
  const opened = dryRun || stay ? [] : await (await import("./policy/off.ts")).offAfterUninstall(socket);
  for (const line of opened) log(line);
  if (json) terminal.out(JSON.stringify({ files: undone, policy: opened, dryRun }, undefined, 2));
  else if (undone.length === 0) terminal.out(`nothing was installed by tortie: ${netDir} has no record of it`);
  while (stay && !end.aborted) await SYSTEM_CLOCK.sleep(STAY_MS, end);
  return 0;
}

function sentence({ severity, subject, message }: Finding, { colors }: Terminal): string {
  const mark = severity === "missing" ? colors.red("missing") : severity === "warning" ? colors.yellow("warning") : colors.green("ok");
  return `${mark}  ${subject}: ${message}`;
}
