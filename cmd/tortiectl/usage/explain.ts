/** What is wrong with a command line, in words, with what would be right. */
import { suggestionFor } from "../../../doctor/validate/suggest.ts";
import { TortieError } from "../../../lib/errors/errors.ts";
import { optionWithoutValue, unknownArguments, unknownText } from "../../unknown-options.ts";
import { type CommandShape, commandNamedBy, type HelpOf, type NamedCommand, neededWords, shapeOf } from "./shape.ts";

/**
 * @param message what yargs found, or a command's own check
 * @returns `subcommand-unknown`, `argument-missing` or `option-invalid`
 */
export async function explainUsage(message: string, argv: readonly string[], helpOf: HelpOf): Promise<TortieError> {
  const command = await commandNamedBy(argv, helpOf);
  const { path, shape, words } = command;
  const [word] = words;
  if (shape.commands.length > 0) return word === undefined ? commandMissing(command) : unknownCommand(word, command, helpOf);
  const next = `${["tortiectl", ...path].join(" ")} --help shows every option`;
  const unknown = unknownArguments(message, argv);
  if (unknown !== undefined) return new TortieError("option-invalid", unknownText(unknown, argv, [...shape.options.keys()]), { next });
  return missing(message, command, next) ?? new TortieError("option-invalid", valueText(message, shape), { next });
}

/** Something that must be given is not there: a word of the command, an option, or an option's value. */
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

async function unknownCommand(word: string, { path, shape }: NamedCommand, helpOf: HelpOf): Promise<TortieError> {
  const near = suggestionFor(word, shape.commands);
  const meant = near === undefined ? await elsewhere(word, helpOf) : [[...path, near].join(" ")];
  const of = path.length === 0 ? "" : ` of ${path.join(" ")}`;
  const question = meant.length === 0 ? "" : `: did you mean ${orList(meant.map((one) => `tortiectl ${one}`))}?`;
  const next = `the commands${of} are ${shape.commands.join(", ")}; ${["tortiectl", ...path].join(" ")} --help says what each does`;
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

/** yargs lists over several lines what a value may be. */
function valueText(message: string, { options }: CommandShape): string {
  const [, name, given, choices] = /^Invalid values:\n +Argument: (\S+), Given: (.*), Choices: (.*)$/.exec(message) ?? [];
  if (name === undefined) return message.replaceAll(/\s*\n\s*/g, " ");
  return `${options.has(name) ? `--${name}` : name.toUpperCase()} ${given}: one of ${choices} is wanted`;
}
