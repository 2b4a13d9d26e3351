/** `tortiectl install` and `tortiectl uninstall`: preflight, then the installer; what was done, for people or as JSON. */
import { planInstallation } from "../../../installer/dry-run.ts";
import { type Finding, preflight } from "../../../installer/preflight.ts";
import { CONTAINER_PATHS, readInstallSettings, TORTIE_NAMES } from "../../../installer/settings.ts";
import { uninstall } from "../../../installer/uninstall.ts";
import { runInstaller } from "../../installer.ts";
import { reportError, type Terminal } from "../terminal.ts";
import type { InstallOptions } from "./options.ts";

/** @returns exit status: 1 when the host lacks something (unless --force), or the installation fails */
export async function installHere(options: InstallOptions, terminal: Terminal): Promise<number> {
  const lines: string[] = [];
  const log = (line: string) => {
    lines.push(line);
    if (!options.json) terminal.out(line);
  };
  try {
    const paths = {
      ...CONTAINER_PATHS,
      source: options.source,
      pluginSource: options.plugins ?? "",
      binDirs: options.binDir,
      netDir: options.netDir,
    };
    const env = { ...process.env, CNI_NET_DIR: process.env.CNI_NET_DIR ?? options.netDir, SLEEP: String(options.watch) };
    const settings = readInstallSettings(env, paths, TORTIE_NAMES, options.conflist);
    const findings = preflight(settings);
    for (const finding of findings) log(sentence(finding, terminal));
    const isLacking = findings.some(({ severity }) => severity === "missing");
    if (isLacking && !options.force) log("nothing was installed: the host lacks what is marked above (--force installs all the same)");
    else if (options.dryRun) for (const line of planInstallation(settings)) log(line);
    else await runInstaller(settings, { log, healthPort: options.healthPort });
    if (options.json) terminal.out(JSON.stringify({ findings, lines }, undefined, 2));
    return isLacking && !options.force ? 1 : 0;
  } catch (error) {
    return reportError(terminal, error);
  }
}

export interface UninstallOptions {
  readonly netDir: string;
  readonly dryRun: boolean;
  readonly json: boolean;
}

export function uninstallHere({ netDir, dryRun, json }: UninstallOptions, terminal: Terminal): number {
  try {
    const undone = uninstall(netDir, dryRun, (line) => (json ? undefined : terminal.out(line)));
    if (json) terminal.out(JSON.stringify({ files: undone, dryRun }, undefined, 2));
    else if (undone.length === 0) terminal.out(`nothing was installed by tortie: ${netDir} has no record of it`);
    return 0;
  } catch (error) {
    return reportError(terminal, error);
  }
}

function sentence({ severity, subject, message }: Finding, { colors }: Terminal): string {
  const mark = severity === "missing" ? colors.red("missing") : severity === "warning" ? colors.yellow("warning") : colors.green("ok");
  return `${mark}  ${subject}: ${message}`;
}
