/**
 * Does what both CNI plugins do first (C§0.1, I§1.1, I§1.2): reads a few flags in Go's style, ignoring positional arguments, and answers
 * VERSION and a person's call without any, which need nothing of the plugin. Any other call loads what serves it.
 */

import type { Environment } from "../lib/cni/protocol.ts";
import { CNI_VERSIONS, renderVersions } from "../lib/cni/protocol.ts";
import { refusedVariables } from "../lib/system/refused-variables.ts";
import { print, printError, VERSION } from "./output.ts";
import type { Plugin } from "./serve-call.ts";

/** @param readStdin absent: from the process's own @returns the exit status */
export async function runPlugin(plugin: Plugin, env: Environment, readStdin?: () => Uint8Array): Promise<number> {
  const command = env.CNI_COMMAND ?? "";
  if (refusedVariables(env).length === 0) {
    if (command === "") {
      printError(about(plugin.name));
      return 0;
    }
    if (command === "VERSION") return printVersions();
  }
  const { serveCall } = await import("./serve-call.ts");
  return serveCall(plugin, env, readStdin);
}

/** @returns the exit status */
function printVersions(): number {
  try {
    print(renderVersions());
    return 0;
  } catch (cause) {
    printError(`cannot write to standard output: ${String(cause)}\n`);
    return 1;
  }
}

/** Says what a person sees who runs a plugin by hand, without CNI_COMMAND (I§1.1). */
function about(name: string): string {
  return `${name} ${VERSION}: a CNI plugin, to be called by a container runtime\nCNI protocol versions supported: ${CNI_VERSIONS.join(", ")}\n`;
}

/** Describes the command line of a CNI plugin (C§0.1, I§1.1): a few flags in Go's style, positional arguments ignored. */

type FlagRun =
  | { readonly kind: "plugin" }
  | { readonly kind: "flag"; readonly flag: string }
  | { readonly kind: "stop"; readonly exit: number; readonly stderr: string };

/** Holds name and one line of help of each boolean flag. */
type Flags = Readonly<Record<string, string>>;

/**
 * Reads flags up to the first positional argument, as Go's flag package does: "-v", "--v", "-v=true".
 * @returns what to do: run as a plugin, run what a flag asks for, or stop with a status (unknown flag and bad value 2, help 0)
 */
export function readFlags(program: string, argv: readonly string[], flags: Flags): FlagRun {
  // How runtimes call it.
  if (argv.length === 0) return { kind: "plugin" };
  const usage = [`Usage of ${program}:`, ...Object.entries(flags).map(([name, help]) => `  -${name}\t${help}`)].join("\n");
  let found: string | undefined;
  for (const argument of argv) {
    const match = /^--?([^-=][^=]*)(?:=(.*))?$/s.exec(argument);
    if (argument === "--" || match === null) break;
    const [, given = "", value] = match;
    // What people type who know other programs.
    const name = given === "version" && Object.hasOwn(flags, "v") ? "v" : given;
    if (name === "h" || name === "help") return { kind: "stop", exit: 0, stderr: `${usage}\n` };
    if (!Object.hasOwn(flags, name)) {
      return { kind: "stop", exit: 2, stderr: `flag provided but not defined: -${name}\n${usage}\n` };
    }
    const wanted = value === undefined ? true : parseGoBool(value);
    if (wanted === undefined) {
      return { kind: "stop", exit: 2, stderr: `invalid boolean value "${value}" for -${name}: parse error\n${usage}\n` };
    }
    if (wanted) found ??= name;
  }
  return found === undefined ? { kind: "plugin" } : { kind: "flag", flag: found };
}

/** Takes the spellings that Go's strconv.ParseBool takes. */
function parseGoBool(text: string): boolean | undefined {
  if (["1", "t", "T", "TRUE", "true", "True"].includes(text)) return true;
  if (["0", "f", "F", "FALSE", "false", "False"].includes(text)) return false;
  return undefined;
}
