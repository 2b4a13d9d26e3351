/** Runs `tortiectl validate`: reads the files and prints what doctor/validate finds. */
import { readFileSync } from "node:fs";
import { count } from "../../doctor/problem.ts";
import { type Finding, lineOf } from "../../doctor/validate/finding.ts";
import { networkSchema } from "../../doctor/validate/json-schema.ts";
import { validateText } from "../../doctor/validate/validate.ts";
import { defaultPluginPath } from "../../lib/cni/runtime/run-plugin.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import { STANDARD_INPUT, type Terminal } from "./terminal.ts";

interface ValidateOptions {
  readonly files: readonly string[];
  readonly cniBinDir: string | undefined;
  readonly printSchema: boolean;
  readonly json: boolean;
}

/** @returns exit status: 1 when there is an error */
export async function validate({ files, cniBinDir, printSchema, json }: ValidateOptions, terminal: Terminal): Promise<number> {
  if (printSchema) {
    terminal.out(JSON.stringify(networkSchema(), undefined, 2));
    return 0;
  }
  const findings: Finding[] = [];
  for (const file of files) findings.push(...(await findingsIn(file, cniBinDir ?? defaultPluginPath(process.env))));
  const errors = findings.filter(({ severity }) => severity === "error").length;
  const warnings = findings.length - errors;
  if (json) terminal.out(JSON.stringify({ errors, warnings, findings }, undefined, 2));
  else {
    const { red, yellow } = terminal.colors;
    for (const finding of findings)
      terminal.out(lineOf(finding).replace(/: (error|warning) /, (words) => (words.includes("error") ? red : yellow)(words)));
    terminal.out(`${count(files.length, "file")}: ${count(errors, "error")}, ${count(warnings, "warning")}`);
  }
  return errors === 0 ? 0 : 1;
}

async function findingsIn(file: string, cniBinDir: string): Promise<readonly Finding[]> {
  let text: string;
  try {
    text = file === STANDARD_INPUT ? await Bun.stdin.text() : readFileSync(file, "utf8");
  } catch (error) {
    return [{ file, severity: "error", code: "document-unreadable", path: "", message: `cannot be read: ${messageOf(error)}` }];
  }
  return validateText(file, text, cniBinDir);
}
