/** Finds options that a command line names and a program does not have, or gives twice, and says what was probably meant. */
import { suggestionFor } from "../doctor/validate/finding.ts";

/**
 * Returns the names that yargs calls unknown, options and words alike; `undefined` when its message is about something else. Under camel-case
 * expansion it names an option twice ("run-dri, runDri"): only what was typed counts.
 */
export function unknownArguments(message: string, argv: readonly string[]): readonly string[] | undefined {
  const [, names] = /^Unknown arguments?: (.*)$/s.exec(message) ?? [];
  if (names === undefined) return undefined;
  const typed = new Set(argv.map((token) => token.replace(/^-+/, "").split("=", 1)[0]));
  return names.split(", ").filter((name) => typed.has(name) || typed.has(`no-${name}`) || typed.has(name.split(".", 1)[0]));
}

/**
 * Writes `there is no option --run-dri: did you mean --run-dir?`, or for words that no option takes `one word too many: "extra"`.
 * @param unknown as `unknownArguments` gives them
 * @param known the program's options
 */
export function unknownText(unknown: readonly string[], argv: readonly string[], known: readonly string[]): string {
  const isOption = (name: string) => argv.some((token) => token.startsWith("-") && token.replace(/^-+(?:no-)?/, "").startsWith(name));
  return unknown.map((name) => (isOption(name) ? unknownOption(name, known) : `one word too many: ${JSON.stringify(name)}`)).join("; ");
}

/** Returns the option whose value is not given; `undefined` when yargs' message is about something else. */
export function optionWithoutValue(message: string): string | undefined {
  return /^Not enough arguments following: (.*)$/.exec(message)?.[1];
}

/** Names the options of a line in their order, as they were typed without dashes: `--no-x` and `--x=1` are both x. */
function namesTyped(argv: readonly string[]): readonly string[] {
  const end = argv.indexOf("--");
  const line = end < 0 ? argv : argv.slice(0, end);
  return line.flatMap((token) => /^--(?:no-)?([^=]+)/.exec(token)?.[1] ?? /^-([a-zA-Z])/.exec(token)?.[1] ?? []);
}

/**
 * Writes `--net-dir is given twice, and only one can count`; `undefined` when nothing is. yargs makes one text or a list of both, or lets the
 * last one win.
 * @param optionOf the option that a typed name means, and whether it takes a list
 */
export function twiceText(argv: readonly string[], optionOf: (typed: string) => { readonly name: string; readonly isList: boolean }) {
  const seen = new Set<string>();
  for (const { name, isList } of namesTyped(argv).map(optionOf)) {
    if (seen.has(name) && !isList) return `${dashed(name)} is given twice, and only one can count`;
    seen.add(name);
  }
  return undefined;
}

function unknownOption(name: string, known: readonly string[]): string {
  const near = suggestionFor(name, known);
  return `there is no option ${dashed(name)}${near === undefined ? "" : `: did you mean ${dashed(near)}?`}`;
}

/** Writes a name as people type it. */
function dashed(name: string): string {
  return name.length === 1 ? `-${name}` : `--${name}`;
}
