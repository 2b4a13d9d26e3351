/**
 * What the agent is told: a flag beats its variable, which beats the file that `--config` names, which beats the default. One JSON Schema
 * judges them all.
 */
import Ajv, { type ErrorObject } from "ajv";
import type { Environment } from "../../lib/cni/environment.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { readText } from "../../lib/system/files.ts";
import { type AgentOptions, OPTION_NAMES, OPTION_TABLE, type OptionEntry, variableOf } from "./option-table.ts";

type Given = Readonly<Record<string, unknown>>;

/** JSON Schema (draft 2020-12) of the file that `--config` names: every option by its name, none required. */
export function optionsSchema(): Record<string, unknown> {
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    $id: "https://tortie.dev/schemas/tortie-node.json",
    title: "Configuration of tortie-node",
    type: "object",
    additionalProperties: false,
    properties: Object.fromEntries(OPTION_NAMES.map((name) => [name, schemaOf(OPTION_TABLE[name])])),
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
export function resolveOptions(flags: Given, env: Environment, file: string | undefined): AgentOptions {
  const inFile = file === undefined ? {} : readOptionsFile(file);
  if (file !== undefined) judge(inFile, false, (name) => `${file}: ${name}`);
  const inEnvironment = Object.fromEntries(
    OPTION_NAMES.flatMap((name) => {
      const value = env[variableOf(name)];
      return value === undefined || value === "" ? [] : [[name, value]];
    }),
  );
  judge(inEnvironment, true, (name) => `variable ${variableOf(name)}`);
  const onLine = { ...flags };
  judge(onLine, true, (name) => `--${name}`);
  const given: Given = { ...inFile, ...inEnvironment, ...onLine };
  const options: Record<string, unknown> = {};
  for (const name of OPTION_NAMES) {
    const entry: OptionEntry = OPTION_TABLE[name];
    options[name] = given[name] ?? entry.default;
  }
  if (!options["enable-ipv4"] && !options["enable-ipv6"]) {
    throw new TortieError("option-invalid", "Either IPv4 or IPv6 addressing must be enabled");
  }
  // Each member was judged above, by the schema that its type is made from.
  return options as unknown as AgentOptions;
}

/** @throws TortieError `option-invalid` */
export function checkOption(name: string, value: string): void {
  judge({ [name]: value }, true, (option) => option);
}

function readOptionsFile(path: string): Given {
  let found: unknown;
  try {
    found = JSON.parse(readText(path));
  } catch (cause) {
    throw new TortieError("option-invalid", `--config ${path}: ${messageOf(cause)}`, { cause });
  }
  if (typeof found === "object" && found !== null && !Array.isArray(found)) return found as Given;
  throw new TortieError("option-invalid", `--config ${path}: an object of options is expected`);
}

/** Checks values in place. @param isText they are texts that stand for numbers and booleans */
function judge(values: Given, isText: boolean, label: (name: string) => string): void {
  const ajv = new Ajv({ coerceTypes: isText, allErrors: false });
  const { $schema: _, ...schema } = optionsSchema();
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
  return `${label(name)}: ${JSON.stringify(values[name])} ${error.message ?? "is not valid"}${choices}`;
}
