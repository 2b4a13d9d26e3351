/** The node agent, `tortie-node`: flags, variables and file become options (A§1.1); then it runs until a signal ends it. */
import yargs from "yargs";
import { runAgent } from "../agent/compose.ts";
import { OPTION_NAMES, OPTION_TABLE, type OptionEntry, variableOf } from "../agent/process/option-table.ts";
import { optionsSchema, resolveOptions } from "../agent/process/options.ts";
import type { Environment } from "../lib/cni/environment.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { refuseRuntimeVariables } from "../lib/system/runtime-environment.ts";
import { VERSION } from "./version.ts";

/** @returns the exit status: 0 ended by a signal, 1 failed, 2 the command line is wrong */
export async function tortieNode(argv: readonly string[], env: Environment): Promise<number> {
  let output = "";
  let flags: Readonly<Record<string, unknown>>;
  try {
    refuseRuntimeVariables(env);
    flags = await parser(argv).parseAsync([...argv], {}, (_error, _arguments, text) => {
      output = text;
    });
  } catch (error) {
    process.stderr.write(`tortie-node: ${messageOf(error)}; --help shows the options\n`);
    return 2;
  }
  if (output !== "") {
    process.stdout.write(`${output}\n`);
    return 0;
  }
  if (flags["print-schema"] === true) {
    process.stdout.write(`${JSON.stringify(optionsSchema(), undefined, 2)}\n`);
    return 0;
  }
  const file = textOf(flags.config) ?? env.TORTIE_CONFIG;
  const given = Object.fromEntries(OPTION_NAMES.flatMap((name) => (flags[name] === undefined ? [] : [[name, flags[name]]])));
  const read = () => resolveOptions(given, env, file);
  try {
    return await runAgent({ options: read(), env, version: VERSION, reread: read });
  } catch (error) {
    process.stderr.write(`tortie-node: ${messageOf(error)}\n`);
    if (error instanceof TortieError) process.stderr.write(`  next  ${error.next} (${error.word})\n`);
    return 1;
  }
}

function parser(argv: readonly string[]) {
  const options = Object.fromEntries(OPTION_NAMES.map((name) => [name, flagOf(name, OPTION_TABLE[name])]));
  return (
    yargs([...argv])
      .scriptName("tortie-node")
      .locale("en")
      .usage(
        "$0 [options]\n\nThe node agent of tortie. Every option may also be a variable (TORTIE_RUN_DIR for --run-dir), or in the file of --config.",
      )
      .options(options)
      .option("config", { type: "string", group: "Process", description: "JSON file of options by their names [TORTIE_CONFIG]" })
      .option("print-schema", { type: "boolean", group: "Process", description: "Print the JSON Schema of that file" })
      // "run-dir" alone, not "runDir" as well: what is given is judged by name.
      .parserConfiguration({ "camel-case-expansion": false, "duplicate-arguments-array": false })
      .strict()
      .version(VERSION)
      .help()
      .alias("help", "h")
      .wrap(null)
      .exitProcess(false)
      .fail((message, error) => {
        throw error ?? new Error(message);
      })
  );
}

/** Values stay texts: the schema judges them, and the same way as variables. */
function flagOf(name: string, entry: OptionEntry) {
  const shown = entry.default === undefined ? "" : ` (default ${JSON.stringify(entry.default)})`;
  const choices = "choices" in entry && entry.choices !== undefined ? `: ${entry.choices.join(", ")}` : "";
  return {
    type: entry.type === "boolean" ? ("boolean" as const) : ("string" as const),
    group: entry.group,
    description: `${entry.description}${choices}${shown} [${variableOf(name)}]`,
    requiresArg: entry.type !== "boolean",
  };
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
