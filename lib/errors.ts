/**
 * What goes wrong, said so that a person can act on it: the catalogue of stable words, and the one class that carries them.
 *
 * A word never changes once released; `docs/errors.md` lists them all and a test holds the two together.
 * `code` is the number CNI wants (C§10): 999 wherever Calico's plugins raise a plain error, so that callers see what they always saw.
 */
export const ERRORS = {
  "version-unsupported": { code: 1, next: "set cniVersion to one of the supported versions" },
  "operation-unsupported": { code: 1, next: "raise cniVersion in the network configuration, or do not call this operation" },
  "environment-missing": { code: 4, next: "the runtime must set these variables; see docs/errors.md#environment-missing" },
  "environment-invalid": { code: 4, next: "correct the variable that the message names" },
  "command-unknown": { code: 4, next: "CNI_COMMAND is one of ADD, DEL, CHECK, STATUS, GC, VERSION" },
  "stdin-unreadable": { code: 5, next: "the runtime must pass the network configuration on standard input" },
  "netconf-not-json": { code: 6, next: "validate the file with: tortiectl validate, or any JSON checker" },
  "network-name-invalid": { code: 7, next: "name must start with a letter or digit and hold only letters, digits, '_', '.' and '-'" },
  "netns-own": { code: 8, next: "pass the container's network namespace in CNI_NETNS, or set CNI_NETNS_OVERRIDE=1 to mean this one" },
  "netconf-type": { code: 999, next: "correct the key that the message names; docs/configuration.md has every key's type" },
  "netconf-value": { code: 999, next: "correct the key that the message names; docs/configuration.md has every key's values" },
  internal: { code: 999, next: "this is a defect of tortie: please report it with the log of this operation" },
} as const satisfies Record<string, { readonly code: number; readonly next: string }>;

/** A stable word of the catalogue. */
export type ErrorWord = keyof typeof ERRORS;

/** An error of Tortie's own: a stable word, what failed on which object (`message`), and what to do next. */
export class TortieError extends Error {
  readonly word: ErrorWord;
  readonly code: number;
  readonly next: string;
  /** Extra facts for the `details` member of a CNI error, put before the word (C§10). */
  readonly details: string | undefined;

  constructor(word: ErrorWord, message: string, options: { cause?: unknown; next?: string; details?: string } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "TortieError";
    this.word = word;
    this.code = ERRORS[word].code;
    this.next = options.next ?? ERRORS[word].next;
    this.details = options.details;
  }
}

/** An error object that another plugin printed, passed on unchanged (C§10, "child's code"). */
export class ForeignCniError extends Error {
  readonly code: number;
  readonly details: string | undefined;

  constructor(code: number, message: string, details?: string) {
    super(message);
    this.name = "ForeignCniError";
    this.code = code;
    this.details = details;
  }
}

/** Text of anything that was thrown, causes left out. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
