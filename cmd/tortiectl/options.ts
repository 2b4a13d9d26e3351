/** Says how commands of `tortiectl` are described to yargs: groups of them, their options, and what was given of these. */

import type { Argv, CommandModule } from "yargs";
import { DEFAULT_SOCKET } from "../../handover/run-directory.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import type { Output, Terminal } from "./terminal.ts";

/** Has what a subcommand gets: where to write, and how to say its exit status. */
export interface CommandContext {
  readonly terminal: Terminal;
  finish(status: number): void;
}

/** Gives a command the types of the options that its builder declares. */
export function command<T>(module: CommandModule<object, T>): CommandModule<object, T> {
  return module;
}

/** Describes a command that does nothing by itself, but for the commands below it. */
export function group(name: string, describe: string, add: (argv: Argv) => void): CommandModule {
  return {
    command: name,
    describe,
    builder: (argv) => {
      add(argv);
      return argv.demandCommand(1);
    },
    handler: () => undefined,
  };
}

/** Describes an option whose value is a text. */
export function textOption(describe: string) {
  return { type: "string", requiresArg: true, describe } as const;
}

/** Describes an option whose value is a number. */
export function numberOption(describe: string, standard: number) {
  return { type: "number", requiresArg: true, default: standard, describe } as const;
}

/** Describes an option that takes all words behind it, and may be repeated; without it the list is empty. */
export function listOption(describe: string) {
  const none: readonly string[] = [];
  return { type: "array", string: true, requiresArg: true, default: none, describe } as const;
}

/** Describes an option that takes one word each time that it stands in a line. */
export function repeatedOption(describe: string) {
  return { type: "string", array: true, nargs: 1, describe } as const;
}

/** Describes an option that is on where it stands in a line. */
export function flagOption(describe: string) {
  return { type: "boolean", default: false, describe } as const;
}

/** Describes the option of every command that prints something. */
export const JSON_OUTPUT = flagOption("Print JSON");

/** Describes the options of every command that asks the agent. */
export const AGENT_OPTIONS = {
  socket: textOption(`The agent's socket; default: TORTIE_SOCK, else ${DEFAULT_SOCKET}`),
  json: flagOption("Print the agent's answer as JSON"),
} as const;

/** Describes where a host's network configurations are. */
export const NET_DIR = { ...textOption("Directory of network configurations"), default: "/etc/cni/net.d" };

/** Describes which datastore a command is about. */
export const STORE_OPTIONS = {
  datastore: textOption("File of a local datastore, default /var/lib/tortie/tortie.db; or etcdv3, which ETCD_ENDPOINTS leads to"),
  conf: textOption("Network configuration (list) whose datastore is meant"),
  kubeconfig: textOption("Kubernetes cluster that this file leads to"),
} as const;

/** Takes the options as they are: yargs has judged the types. */
export function agentOptions(given: Readonly<Record<string, unknown>>): { readonly socket: string; readonly json: boolean } {
  const socket = typeof given.socket === "string" && given.socket !== "" ? given.socket : process.env.TORTIE_SOCK || DEFAULT_SOCKET;
  return { socket, json: given.json === true };
}

/** Describes the options of a command that shows a list. */
export const OUTPUT_OPTIONS = {
  output: { alias: "o", choices: ["wide", "json", "yaml"] as const, describe: "Form: more columns, JSON or YAML; default: words" },
  watch: { ...flagOption("Show it again whenever it has changed"), alias: "w" },
} as const;

/** Returns the form that --output and --json ask for. */
export function outputOf({ output, json }: { readonly output?: string | undefined; readonly json?: unknown }): Output {
  if (json === true || output === "json") return "json";
  return output === "wide" || output === "yaml" ? output : "words";
}

/** Converts an option that is given in seconds. @throws TortieError `option-invalid` */
export function milliseconds(option: string, seconds: number): number {
  if (Number.isFinite(seconds) && seconds >= 0) return seconds * 1000;
  throw new TortieError("option-invalid", `--${option} wants a number of seconds`);
}
