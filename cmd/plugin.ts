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

/** Holds one line of help of each boolean flag by its name, and what it does. @returns the exit status */
type Flags = Readonly<Record<string, readonly [help: string, run: () => number | Promise<number>]>>;

/** Does what the flag -v asks for. */
export function printOwnVersion(): number {
  print(`${VERSION}\n`);
  return 0;
}

/**
 * Does what the first flag asks for. Reads flags up to the first positional argument, as Go's flag package does: "-v", "--v", "-v=true".
 * @returns the exit status (unknown flag and bad value 2, help 0); `undefined`: it runs as a plugin
 */
export async function runFlag(program: string, argv: readonly string[], flags: Flags): Promise<number | undefined> {
  // How runtimes call it.
  if (argv.length === 0) return undefined;
  const stop = (exit: number, error = "") => {
    const usage = Object.entries(flags).map(([name, [help]]) => `  -${name}\t${help}\n`);
    printError(`${error}Usage of ${program}:\n${usage.join("")}`);
    return exit;
  };
  let found: string | undefined;
  for (const argument of argv) {
    const match = /^--?([^-=][^=]*)(?:=(.*))?$/s.exec(argument);
    if (argument === "--" || match === null) break;
    const [, given = "", value] = match;
    // What people type who know other programs.
    const name = given === "version" && Object.hasOwn(flags, "v") ? "v" : given;
    if (name === "h" || name === "help") return stop(0);
    if (!Object.hasOwn(flags, name)) return stop(2, `flag provided but not defined: -${name}\n`);
    const wanted = value === undefined ? true : parseGoBool(value);
    if (wanted === undefined) return stop(2, `invalid boolean value "${value}" for -${name}: parse error\n`);
    if (wanted) found ??= name;
  }
  return found === undefined ? undefined : flags[found]?.[1]();
}

/** Takes the spellings that Go's strconv.ParseBool takes. */
function parseGoBool(text: string): boolean | undefined {
  if (["1", "t", "T", "TRUE", "true", "True"].includes(text)) return true;
  if (["0", "f", "F", "FALSE", "false", "False"].includes(text)) return false;
  return undefined;
}
