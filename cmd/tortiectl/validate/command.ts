/** `tortiectl validate`: the findings of each file as lines that editors understand, or as JSON. */
import type { FileFinding } from "../../../doctor/validate/finding.ts";
import { validateFile } from "../../../doctor/validate/validate-file.ts";
import { defaultPluginPath } from "../../../lib/cni/runtime/run-plugin.ts";
import { netconfSchema } from "../../../lib/config/json-schema.ts";
import type { Terminal } from "../terminal.ts";

interface ValidateOptions {
  readonly files: readonly string[];
  readonly cniPath: string | undefined;
  readonly versions: boolean;
  readonly json: boolean;
}

/** @returns exit status: 0 without errors (warnings may be there), 1 with some, 2 without a file */
export async function validate({ files, cniPath, versions, json }: ValidateOptions, terminal: Terminal): Promise<number> {
  if (files.length === 0) {
    terminal.err("tortiectl: validate: which file? --help shows the usage");
    return 2;
  }
  const pluginPath = versions ? (cniPath ?? defaultPluginPath(process.env)) : undefined;
  const found: FileFinding[] = [];
  for (const file of files) {
    const ofFile = await validateFile(file, pluginPath);
    found.push(...ofFile);
    if (json) continue;
    for (const finding of ofFile) terminal.out(line(finding, terminal));
    if (ofFile.length === 0) terminal.out(`${file}: ${terminal.colors.green("ok")}`);
  }
  const isWrong = found.some(({ severity }) => severity === "error");
  if (json) terminal.out(JSON.stringify({ valid: !isWrong, findings: found }, undefined, 2));
  return isWrong ? 1 : 0;
}

/** @returns exit status 0 */
export function printSchema(terminal: Terminal): number {
  terminal.out(JSON.stringify(netconfSchema(), undefined, 2));
  return 0;
}

function line({ file, position, severity, subject, message }: FileFinding, { colors }: Terminal): string {
  const place = position === undefined ? file : `${file}:${position.line}:${position.column}`;
  const mark = severity === "error" ? colors.red(severity) : colors.yellow(severity);
  return `${place}: ${mark}: ${subject}: ${message}`;
}
