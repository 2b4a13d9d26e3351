/**
 * Says in words what is wrong with a command line, and what would be right. What a command of `tortiectl` takes is read from its own help text:
 * the one description that every command has. Suggestions and the completion of command lines are made of it, so that neither can name what
 * is not there.
 */
import { suggestionFor } from "../../doctor/validate/finding.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { optionWithoutValue, twiceText, unknownArguments, unknownText } from "../unknown-options.ts";

/**
 * @param message what yargs found, or a command's own check
 * @param program as people type its name
 * @returns `subcommand-unknown`, `argument-missing` or `option-invalid`
 */
export async function explainUsage(message: string, argv: readonly string[], helpOf: HelpOf, program = "tortiectl"): Promise<TortieError> {
  const command = await commandNamedBy(argv, helpOf);
  const { path, shape, words } = command;
  const [word] = words;
  if (shape.commands.length > 0) return word === undefined ? commandMissing(command) : unknownCommand(word, command, helpOf, program);
  const next = `${[program, ...path].join(" ")} --help shows every option`;
  const unknown = unknownArguments(message, argv);
  if (unknown !== undefined) return new TortieError("option-invalid", unknownText(unknown, argv, [...shape.options.keys()]), { next });
  return missing(message, command, next) ?? new TortieError("option-invalid", valueText(message, shape), { next });
}

/** Refuses an option that stands twice in a line and takes no list. @throws TortieError `option-invalid` */
export async function refuseTwice(argv: readonly string[], helpOf: HelpOf, program: string): Promise<void> {
  // In most lines no two options begin alike, as an option and its letter do: nothing is asked for them.
  if (twiceText(argv, (typed) => ({ name: typed.slice(0, 1).toLowerCase(), isList: false })) === undefined) return;
  const { path, shape } = await commandNamedBy(argv, helpOf);
  const twice = twiceOf(argv, shape);
  if (twice === undefined) return;
  throw new TortieError("option-invalid", twice, { next: `${[program, ...path].join(" ")} --help shows every option` });
}

/** Says which option of a command stands twice in a line and takes no list. */
export function twiceOf(argv: readonly string[], { options }: Pick<CommandShape, "options">): string | undefined {
  const known = [...options];
  return twiceText(argv, (typed) => {
    const long = typed.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
    const [name, shape] = known.find(([other, { short }]) => other === long || short === typed) ?? [typed, undefined];
    return { name, isList: shape?.isList === true };
  });
}

/** Reports that something is missing: a word of the command, an option, or an option's value. */
function missing(message: string, { shape, words }: NamedCommand, next: string): TortieError | undefined {
  const [, options] = /^Missing required arguments?: (.*)$/.exec(message) ?? [];
  if (options !== undefined)
    return absent(
      options.split(", ").map((name) => `--${name}`),
      next,
    );
  const option = optionWithoutValue(message);
  if (option !== undefined) return absent([`the value of --${option}`], next);
  if (!message.startsWith("Not enough non-option arguments")) return undefined;
  const usage = shape.usage.replaceAll(/<([a-z-]+)>/g, (_, name: string) => name.toUpperCase());
  return absent(
    neededWords(shape)
      .slice(words.length)
      .map((name) => name.toUpperCase()),
    usage,
  );
}

function absent(what: readonly string[], next: string): TortieError {
  return new TortieError("argument-missing", `${what.join(" and ")} ${what.length === 1 ? "is" : "are"} missing`, { next });
}

function commandMissing({ path, shape }: NamedCommand): TortieError {
  return new TortieError("argument-missing", `${path.join(" ")}: which command? (${shape.commands.join(", ")})`);
}

async function unknownCommand(word: string, { path, shape }: NamedCommand, helpOf: HelpOf, program: string): Promise<TortieError> {
  const near = suggestionFor(word, shape.commands);
  const meant = near === undefined ? await elsewhere(word, helpOf) : [[...path, near].join(" ")];
  const of = path.length === 0 ? "" : ` of ${path.join(" ")}`;
  const question = meant.length === 0 ? "" : `: did you mean ${orList(meant.map((one) => `${program} ${one}`))}?`;
  const next = `the commands${of} are ${shape.commands.join(", ")}; ${[program, ...path].join(" ")} --help says what each does`;
  return new TortieError("subcommand-unknown", `there is no command ${JSON.stringify(word)}${of}${question}`, { next });
}

/** Commands of other groups that have this very name: people who come from other networks type `tortiectl status` first. */
async function elsewhere(word: string, helpOf: HelpOf): Promise<readonly string[]> {
  const groups = shapeOf(await helpOf([])).commands;
  const found: string[] = [];
  for (const group of groups) {
    if (shapeOf(await helpOf([group])).commands.includes(word)) found.push(`${group} ${word}`);
  }
  return found;
}

function orList(texts: readonly string[]): string {
  return texts.length < 2 ? texts.join("") : `${texts.slice(0, -1).join(", ")} or ${texts.at(-1)}`;
}

/** Joins what yargs lists over several lines: what a value may be. */
function valueText(message: string, { options }: CommandShape): string {
  const [, name, given, choices] = /^Invalid values:\n +Argument: (\S+), Given: (.*), Choices: (.*)$/.exec(message) ?? [];
  if (name === undefined) return message.replaceAll(/\s*\n\s*/g, " ");
  return `${options.has(name) ? `--${name}` : name.toUpperCase()} ${given}: one of ${choices} is wanted`;
}

/**
 * Reads what a command of `tortiectl` takes from its own help text, the one description that every command has. Suggestions and the
 * completion of command lines are made of it, so that neither can name what is not there.
 */

interface CommandShape {
  /** "tortiectl cni add <conflist> <netns>" */
  readonly usage: string;
  /** Subcommands; empty for a command that does something. */
  readonly commands: readonly string[];
  /** Holds options by their long names. */
  readonly options: ReadonlyMap<string, OptionShape>;
}

interface OptionShape {
  /** Its letter, where it has one. */
  readonly short?: string;
  /** May be given again. */
  readonly isList: boolean;
  /** The next word is the option's value. */
  readonly takesValue: boolean;
  /** Empty when any value may be given. */
  readonly choices: readonly string[];
}

/** @returns the help text of the command that these words name */
export type HelpOf = (path: readonly string[]) => Promise<string>;

/** @param help as yargs prints it without wrapping: one row a command, one row an option */
export function shapeOf(help: string): CommandShape {
  const usage = help.split("\n", 1)[0] ?? "";
  const words = /^[a-z ]+[a-z]/.exec(usage)?.[0] ?? "";
  const rows = sectionsOf(help);
  return {
    usage,
    commands: (rows.get("Commands") ?? []).flatMap((row) => new RegExp(`^  ${words} ([a-z-]+)`).exec(row)?.[1] ?? []),
    options: new Map((rows.get("Options") ?? []).flatMap((row) => optionOf(row))),
  };
}

/** Lists the positional words that must be given, as the usage names them. */
export function neededWords({ usage }: CommandShape): readonly string[] {
  return [...usage.matchAll(/<([a-z-]+)>/g)].map(([, name = ""]) => name);
}

/** Describes the command that a line of words names, as far as it names one. */
interface NamedCommand {
  readonly path: readonly string[];
  readonly shape: CommandShape;
  /** Holds the words behind the command, without options and their values. */
  readonly words: readonly string[];
}

/** @param argv without the program's name */
export async function commandNamedBy(argv: readonly string[], helpOf: HelpOf): Promise<NamedCommand> {
  const path: string[] = [];
  const words: string[] = [];
  let shape = shapeOf(await helpOf(path));
  for (const [index, token] of argv.entries()) {
    if (token.startsWith("-") || isValue(argv[index - 1], shape)) continue;
    if (words.length === 0 && shape.commands.includes(token)) {
      path.push(token);
      shape = shapeOf(await helpOf(path));
    } else words.push(token);
  }
  return { path, shape, words };
}

/** Tells whether the word behind this token is a value and not a word of its own. */
export function isValue(before: string | undefined, shape: CommandShape): boolean {
  return optionBefore(before, shape)?.takesValue === true;
}

/** Returns the option that a token names, when the value is not in the token itself. */
export function optionBefore(before: string | undefined, { options }: CommandShape): OptionShape | undefined {
  const [, name] = /^--([a-z-]+)$/.exec(before ?? "") ?? [];
  return name === undefined ? undefined : options.get(name);
}

function sectionsOf(help: string): ReadonlyMap<string, readonly string[]> {
  const sections = new Map<string, string[]>();
  let rows: string[] = [];
  for (const line of help.split("\n")) {
    const [, name] = /^([A-Z][a-z]+):$/.exec(line) ?? [];
    if (name === undefined) rows.push(line);
    else {
      rows = [];
      sections.set(name, rows);
    }
  }
  return sections;
}

/** Reads "  -h, --help     Show help  [boolean]" */
function optionOf(row: string): [string, OptionShape][] {
  const [, short, name] = /^ +(?:-([a-zA-Z]), )?--([a-z-]+) /.exec(row) ?? [];
  if (name === undefined) return [];
  const choices = /\[choices: ([^\]]*)\]/.exec(row)?.[1] ?? "";
  const values = [...choices.matchAll(/"([^"]*)"/g)].map(([, choice = ""]) => choice);
  const takesValue = !/\[(?:boolean|count)\]/.test(row);
  return [[name, { ...(short !== undefined && { short }), takesValue, isList: row.includes("[array]"), choices: values }]];
}
