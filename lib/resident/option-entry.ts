/** What a table of options is made of: one table gives a program's flags, variables, JSON Schema, types and documentation. */

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

/** TORTIE_RUN_DIR for run-dir. */
export function variableOf(name: string): string {
  return `TORTIE_${name.toUpperCase().replaceAll("-", "_")}`;
}
