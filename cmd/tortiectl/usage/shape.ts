/**
 * What a command of `tortiectl` takes, read from its own help text: the one description that every command has. Suggestions and the
 * completion of command lines are made of it, so that neither can name what is not there.
 */

export interface CommandShape {
  /** "tortiectl cni add <conflist> <netns>" */
  readonly usage: string;
  /** Subcommands; empty for a command that does something. */
  readonly commands: readonly string[];
  /** By their long names. */
  readonly options: ReadonlyMap<string, OptionShape>;
}

export interface OptionShape {
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

/** Positional words that must be given, as the usage names them. */
export function neededWords({ usage }: CommandShape): readonly string[] {
  return [...usage.matchAll(/<([a-z-]+)>/g)].map(([, name = ""]) => name);
}

/** The command that a line of words names, as far as it names one. */
export interface NamedCommand {
  readonly path: readonly string[];
  readonly shape: CommandShape;
  /** Words behind the command that are no options and no values of options. */
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

/** Whether the word behind this token is a value and not a word of its own. */
export function isValue(before: string | undefined, shape: CommandShape): boolean {
  return optionBefore(before, shape)?.takesValue === true;
}

/** The option that a token names, when the value is not in the token itself. */
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

/** "  -h, --help     Show help  [boolean]" */
function optionOf(row: string): [string, OptionShape][] {
  const [, name] = /^ +(?:-[a-zA-Z], )?--([a-z-]+) /.exec(row) ?? [];
  if (name === undefined) return [];
  const choices = /\[choices: ([^\]]*)\]/.exec(row)?.[1] ?? "";
  const values = [...choices.matchAll(/"([^"]*)"/g)].map(([, choice = ""]) => choice);
  return [[name, { takesValue: !/\[(?:boolean|count)\]/.test(row), choices: values }]];
}
