/**
 * Resolves the options of a resident program: a flag beats its variable, which beats the file that `--config` names, which beats the
 * default. One table gives a program's flags, variables, types, documentation and the JSON Schema that judges them all.
 */

import Ajv, { type ErrorObject } from "ajv";
import type { Environment } from "../cni/protocol.ts";
import { messageOf, TortieError } from "../errors/errors.ts";
import { isObject } from "../json/decode.ts";
import { readText } from "../system/files.ts";

interface Common {
  readonly description: string;
  /** Heading in the help and on the page. */
  readonly group: string;
}

interface TextOption extends Common {
  readonly type: "string";
  readonly default?: string;
  readonly choices?: readonly string[];
  /** A regular expression for the whole value. */
  readonly pattern?: string;
}

interface IntegerOption extends Common {
  readonly type: "integer";
  readonly default: number;
  readonly minimum: number;
  readonly maximum: number;
}

interface BooleanOption extends Common {
  readonly type: "boolean";
  readonly default: boolean;
}

export type OptionEntry = TextOption | IntegerOption | BooleanOption;
export type OptionTable = Readonly<Record<string, OptionEntry>>;

type ValueOf<O> = O extends { readonly type: "integer" }
  ? number
  : O extends { readonly type: "boolean" }
    ? boolean
    : O extends { readonly choices: readonly (infer C)[]; readonly default: string }
      ? C
      : O extends { readonly choices: readonly (infer C)[] }
        ? C | undefined
        : O extends { readonly default: string }
          ? string
          : string | undefined;

/** The values of a table's options, by their names on the command line. */
export type OptionValues<T extends OptionTable> = { readonly [K in keyof T]: ValueOf<T[K]> };

/** Whole seconds to milliseconds, where an option counts seconds. */
export const SECOND_MS = 1000;

/** For a pattern: a path from the root. */
export const ABSOLUTE = "^/.*";

/** What every resident program's log is asked, for its table. */
export const LOG_OPTIONS = {
  "log-level": {
    group: "Process",
    type: "string",
    default: "info",
    choices: ["debug", "info", "error"],
    description: "Least important lines that are logged",
  },
  "log-file": { group: "Process", type: "string", pattern: ABSOLUTE, description: "File that gets the log besides standard error" },
} as const satisfies OptionTable;

/** Names the variable of an option: TORTIE_RUN_DIR for run-dir. */
export function variableOf(name: string): string {
  return `TORTIE_${name.toUpperCase().replaceAll("-", "_")}`;
}

/** A program that lives on, and its options. */
export interface Configurable<T extends OptionTable = OptionTable> {
  readonly program: string;
  readonly table: T;
}

type Given = Readonly<Record<string, unknown>>;

/** Writes the JSON Schema (draft 2020-12) of the file that `--config` names: every option by its name, none required. */
export function optionsSchema({ program, table }: Configurable): Record<string, unknown> {
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    $id: `https://tortie.dev/schemas/${program}.json`,
    title: `Configuration of ${program}`,
    type: "object",
    additionalProperties: false,
    properties: Object.fromEntries(Object.entries(table).map(([name, entry]) => [name, schemaOf(entry)])),
  };
}

function schemaOf({ group: _, choices, ...rest }: OptionEntry & { readonly choices?: readonly string[] }): Record<string, unknown> {
  return choices === undefined ? rest : { ...rest, enum: choices };
}

/**
 * @param flags as the command line had them, without those that it did not name
 * @param file what `--config` or TORTIE_CONFIG names
 * @throws TortieError `option-invalid`
 */
export function resolveOptions<T extends OptionTable>(
  of: Configurable<T>,
  flags: Given,
  env: Environment,
  file: string | undefined,
): OptionValues<T> {
  const inFile = file === undefined ? {} : readOptionsFile(file);
  if (file !== undefined) judge(of, inFile, false, (name) => `${file}: ${name}`);
  const inEnvironment = Object.fromEntries(
    Object.keys(of.table).flatMap((name) => {
      const value = env[variableOf(name)];
      return value === undefined || value === "" ? [] : [[name, value]];
    }),
  );
  judge(of, inEnvironment, true, (name) => `variable ${variableOf(name)}`);
  const onLine = { ...flags };
  judge(of, onLine, true, (name) => `--${name}`);
  const given: Given = { ...inFile, ...inEnvironment, ...onLine };
  const options: Record<string, unknown> = {};
  for (const [name, entry] of Object.entries(of.table)) options[name] = given[name] ?? entry.default;
  // Each member was judged above, by the schema that its type is made from.
  return options as unknown as OptionValues<T>;
}

/** @throws TortieError `option-invalid` */
export function checkOption(of: Configurable, name: string, value: string): void {
  judge(of, { [name]: value }, true, (option) => option);
}

function readOptionsFile(path: string): Given {
  let found: unknown;
  try {
    found = JSON.parse(readText(path));
  } catch (cause) {
    throw new TortieError("option-invalid", `--config ${path}: ${messageOf(cause)}`, { cause });
  }
  if (isObject(found)) return found;
  throw new TortieError("option-invalid", `--config ${path}: an object of options is expected`);
}

/** Checks values in place. @param isText they are texts that stand for numbers and booleans */
function judge(of: Configurable, values: Given, isText: boolean, label: (name: string) => string): void {
  const ajv = new Ajv({ coerceTypes: isText, allErrors: false });
  const { $schema: _, ...schema } = optionsSchema(of);
  if (ajv.validate(schema, values)) return;
  const [error] = ajv.errors ?? [];
  throw new TortieError("option-invalid", error === undefined ? "options are not valid" : complaint(error, values, label));
}

function complaint(error: ErrorObject, values: Given, label: (name: string) => string): string {
  if (error.keyword === "additionalProperties") {
    const name = String(error.params.additionalProperty);
    return `${label(name)}: there is no such option`;
  }
  const name = error.instancePath.slice(1);
  const choices = error.keyword === "enum" ? `: ${String(error.params.allowedValues)}` : "";
  return `${label(name)}: ${JSON.stringify(withoutSecrets(values[name]))} ${error.message ?? "is not valid"}${choices}`;
}

/** A URL's user, password and query may be credentials, and what is refused is logged. */
function withoutSecrets(value: unknown): unknown {
  if (typeof value !== "string") return value;
  return value.replace(/^([a-z]+:\/\/)[^/]*@/i, "$1[hidden]@").replace(/^([a-z]+:\/\/[^?]*)\?.*$/i, "$1?[hidden]");
}
