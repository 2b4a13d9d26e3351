/** Reads the command line of a program that lives on, by its table of options, and does what such a program does before it begins. */

import yargs from "yargs";
import type { Environment } from "../lib/cni/protocol.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { type Configurable, type OptionEntry, optionsSchema, variableOf } from "../lib/resident/options.ts";
import { refuseRuntimeVariables } from "../lib/system/privileges.ts";
import { VERSION } from "./output.ts";
import { optionWithoutValue, unknownArguments, unknownText } from "./unknown-options.ts";

/** Says what the command line said: text to print and end with, or the flags that it named. */
interface CommandLine {
  readonly output: string;
  readonly given: Readonly<Record<string, unknown>>;
  /** `--config`. */
  readonly file: string | undefined;
  readonly printsSchema: boolean;
}

interface ResidentProgram {
  readonly of: Configurable;
  /** One sentence for the help. */
  readonly about: string;
  /** @param line flags, and the file of options if there is one @returns the exit status @throws what ends the program */
  readonly run: (line: Pick<CommandLine, "given" | "file">) => Promise<number>;
}

/** @returns the exit status: 0 ended by a signal, 1 failed, 2 the command line is wrong */
export async function runResident({ of, about, run }: ResidentProgram, argv: readonly string[], env: Environment): Promise<number> {
  // The executable is compiled for calls that are over before machine code would pay for its making (scripts/build). This process lives on.
  Bun.unsafe.setJITPolicy(1);
  let line: CommandLine;
  try {
    refuseRuntimeVariables(env);
    line = await parseFlags(of, about, argv);
  } catch (error) {
    const word = error instanceof TortieError ? error.word : "option-invalid";
    process.stderr.write(`${of.program}: ${messageOf(error)}; --help shows the options (${word})\n`);
    return 2;
  }
  const output = line.printsSchema ? JSON.stringify(optionsSchema(of), undefined, 2) : line.output;
  if (output !== "") {
    process.stdout.write(`${output}\n`);
    return 0;
  }
  try {
    return await run({ given: line.given, file: line.file ?? env.TORTIE_CONFIG });
  } catch (error) {
    process.stderr.write(`${of.program}: ${messageOf(error)}\n`);
    if (error instanceof TortieError) process.stderr.write(`  next  ${error.next} (${error.word})\n`);
    return 1;
  }
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
      // "run-dir" alone, not "runDir" as well: what is given is judged by name. The last of two counts: extraArgs of the chart come last.
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

/** Leaves values texts: the schema judges them, in the same way as variables. */
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
