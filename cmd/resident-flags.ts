/** The command line of a program that lives on, from its table of options. */
import yargs from "yargs";
import { type OptionEntry, variableOf } from "../lib/resident/option-entry.ts";
import type { Configurable } from "../lib/resident/options.ts";
import { optionWithoutValue, unknownArguments, unknownText } from "./unknown-options.ts";
import { VERSION } from "./version.ts";

/** What the command line said: text to print and end with, or the flags that it named. */
export interface CommandLine {
  readonly output: string;
  readonly given: Readonly<Record<string, unknown>>;
  /** `--config`. */
  readonly file: string | undefined;
  readonly printsSchema: boolean;
}

/**
 * @param about one sentence for the help
 * @throws Error that says what is wrong with the command line
 */
export async function parseFlags(of: Configurable, about: string, argv: readonly string[]): Promise<CommandLine> {
  let output = "";
  const flags: Readonly<Record<string, unknown>> = await parser(of, about, argv).parseAsync([...argv], {}, (_error, _arguments, text) => {
    output = text;
  });
  const given = Object.fromEntries(Object.keys(of.table).flatMap((name) => (flags[name] === undefined ? [] : [[name, flags[name]]])));
  return { output, given, file: textOf(flags.config), printsSchema: flags["print-schema"] === true };
}

function parser({ program, table }: Configurable, about: string, argv: readonly string[]) {
  const options = Object.fromEntries(Object.entries(table).map(([name, entry]) => [name, flagOf(name, entry)]));
  const variable = "Every option may also be a variable (TORTIE_LOG_LEVEL for --log-level), or in the file of --config.";
  return (
    yargs([...argv])
      .scriptName(program)
      .locale("en")
      .usage(`$0 [options]\n\n${about} ${variable}`)
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
        // yargs throws some of what it finds, and then has no message.
        throw new Error(explained(error?.message ?? message, argv, Object.keys(options)));
      })
  );
}

function explained(message: string, argv: readonly string[], options: readonly string[]): string {
  const unknown = unknownArguments(message, argv);
  if (unknown !== undefined) return unknownText(unknown, argv, [...options, "config", "print-schema", "help", "version"]);
  const option = optionWithoutValue(message);
  return option === undefined ? message : `the value of --${option} is missing`;
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
