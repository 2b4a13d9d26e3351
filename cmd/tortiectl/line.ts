/** Runs one command line of a program that is a tree of yargs commands: reports errors with their words, and explains wrong lines. */
import yargs, { type Argv } from "yargs";
import { refuseRuntimeVariables } from "../../lib/system/privileges.ts";
import { VERSION } from "../output.ts";
import { ASKS, complete } from "./completion.ts";
import { type CommandContext, JSON_OUTPUT } from "./options.ts";
import { NO_COLORS, reportError, STANDARD_INPUT, type Terminal, UsageError } from "./terminal.ts";
import { explainUsage, type HelpOf, refuseTwice } from "./usage.ts";

/** Is a program with commands. */
export interface Program {
  /** As people type it: "kubectl tortie". */
  readonly name: string;
  readonly describe: string;
  /** Adds its commands. */
  readonly commands: (parser: Argv, context: CommandContext) => Argv;
}

/**
 * @param argv without the program's name
 * @returns exit status: 0 done, 1 failed, 2 the command line is wrong
 */
export async function runLine(program: Program, argv: readonly string[], on: Terminal): Promise<number> {
  const terminal = { ...on, program: program.name, ...(asksForJson(argv) && { json: true }) };
  const helpOf = (path: readonly string[]) => helpText(program, path);
  try {
    if (argv[0] === ASKS) return await printCompletions(argv.slice(2), helpOf, terminal);
    refuseRuntimeVariables(process.env);
    await refuseTwice(argv, helpOf, program.name);
    // Without a word there is nothing to refuse: what can be done is shown.
    return await run(program, argv.length === 0 ? ["--help"] : argv, terminal);
  } catch (error) {
    return reportError(terminal, error instanceof UsageError ? await explainUsage(error.message, argv, helpOf, program.name) : error);
  }
}

/** Looks before the line is parsed: errors of the line itself have the same form. */
function asksForJson(argv: readonly string[]): boolean {
  return argv.some(
    (token, index) => token === "--json" || token === "-o=json" || token === "-ojson" || (token === "json" && argv[index - 1] === "-o"),
  );
}

/** @throws UsageError, and what the command throws */
async function run(program: Program, argv: readonly string[], terminal: Terminal): Promise<number> {
  let exit = 0;
  const context: CommandContext = {
    terminal,
    finish: (status) => {
      exit = status;
    },
  };
  // yargs drops a lone "-" among the arguments that a command names.
  const line = argv.map((argument) => (argument === "-" && argv[0] === "validate" ? STANDARD_INPUT : argument));
  try {
    // With a callback, yargs hands over its help text instead of writing it.
    await parserOf(program, line, context).parseAsync(line, {}, (_error, _arguments, output) => {
      if (output !== "") terminal.out(output);
    });
  } catch (error) {
    throw isUsageError(error) ? new UsageError(error.message) : error;
  }
  return exit;
}

async function helpText(program: Program, path: readonly string[]): Promise<string> {
  const lines: string[] = [];
  await run(program, [...path, "--help"], { out: (line) => void lines.push(line), err: () => undefined, colors: NO_COLORS });
  return lines.join("\n");
}

async function printCompletions(words: readonly string[], helpOf: HelpOf, terminal: Terminal): Promise<number> {
  const found = await complete(words, helpOf);
  if (found.length > 0) terminal.out(found.join("\n"));
  return 0;
}

function parserOf({ name, describe, commands }: Program, line: readonly string[], context: CommandContext) {
  const { terminal } = context;
  return commands(yargs(line).scriptName(name).locale("en").usage(`$0 <command>\n\n${describe}`), context)
    .command(
      "version",
      "Print the version",
      (command) => command.option("json", JSON_OUTPUT),
      ({ json }) => terminal.out(json ? JSON.stringify({ version: VERSION }) : VERSION),
    )
    .demandCommand(1)
    .strict()
    .version(VERSION)
    .help()
    .alias("help", "h")
    .wrap(terminal.columns ?? null)
    .exitProcess(false)
    .fail((message, error) => {
      throw error ?? new UsageError(message);
    });
}

/** Knows the errors of yargs, which throws its own class, named YError, for what it finds wrong while a command is parsed. */
function isUsageError(error: unknown): error is Error {
  return error instanceof UsageError || (error instanceof Error && error.name === "YError");
}
