/** Calls an IPAM plugin, whichever executable it is: what goes in, and what comes out of its answer (C§2.5). */

import { ForeignCniError, TortieError } from "../errors/errors.ts";
import { parseJson } from "../json/parse.ts";
import { JsonSyntaxError } from "../json/syntax-error.ts";
import { isJsonObject, type JsonObject, type JsonValue, memberOf } from "../json/value.ts";
import { ProgramError, type ProgramExit, runProgram } from "../system/run-program.ts";
import { lookUpPlugin } from "./plugin-file.ts";
import type { CniCommand, CniResult, CniVersion, Environment } from "./protocol.ts";
import { parseResult } from "./result.ts";

export interface DelegateCall {
  /** The network configuration, passed byte for byte. */
  readonly stdin: Uint8Array;
  /** Our own environment; CNI_COMMAND is replaced. */
  readonly env: Environment;
  /** In place of the CNI_ARGS of `env`. */
  readonly args?: string;
  /** Milliseconds; then the plugin and all it started are killed. */
  readonly timeoutMs: number;
  /** Descriptor that becomes the plugin's standard error; default: our own. */
  readonly standardError?: number | undefined;
  /** Ends the run when it aborts, with its reason. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Runs one operation of the plugin.
 *
 * @returns what it printed
 * @throws ForeignCniError the error object it printed, unchanged
 * @throws TortieError `delegate-failed` (it could not be started, or failed without an error object), `delegate-timeout`, `delegate-output`
 */
export async function runDelegate(
  executable: string,
  { command, args, ...call }: DelegateCall & { readonly command: CniCommand },
): Promise<Uint8Array> {
  const env = { ...call.env, ...(args === undefined ? {} : { CNI_ARGS: args }), CNI_COMMAND: command };
  const { stdout, failure } = await runPlugin(executable, { ...call, env });
  if (failure === undefined) return stdout;
  throw errorOf(stdout) ?? new TortieError("delegate-failed", silentFailure(executable, command, stdout, failure));
}

/**
 * Runs ADD.
 * @param configVersion `cniVersion` of the network configuration, the version of a result that names none
 * @throws as `runDelegate`, and TortieError `delegate-output` for no JSON, `result-invalid` for JSON that is no result
 */
export async function delegateAdd(executable: string, call: DelegateCall, configVersion: CniVersion | undefined): Promise<CniResult> {
  const stdout = await runDelegate(executable, { ...call, command: "ADD" });
  return parseResult(parseOutput(executable, stdout), configVersion, `result of plugin ${executable}`);
}

function parseOutput(executable: string, stdout: Uint8Array): JsonValue {
  try {
    return parseJson(stdout);
  } catch (cause) {
    if (!(cause instanceof JsonSyntaxError)) throw cause;
    throw new TortieError("delegate-output", `failed to unmarshal raw result of plugin ${executable}: ${cause.message}`, { cause });
  }
}

/** Finds the error object in what a failed plugin printed. One without a code does not count, since code 0 would mean success. */
function errorOf(stdout: Uint8Array): ForeignCniError | undefined {
  const object = printedObject(stdout);
  if (object === undefined) return undefined;
  const [code, msg, details] = [memberOf(object, "code"), memberOf(object, "msg") ?? "", memberOf(object, "details") ?? undefined];
  if (typeof code !== "number" || !Number.isSafeInteger(code) || code <= 0) return undefined;
  if (typeof msg !== "string" || (details !== undefined && typeof details !== "string")) return undefined;
  return new ForeignCniError(code, msg, details);
}

/** Reads what a plugin printed, of which nothing need be JSON. */
export function printedObject(stdout: Uint8Array): JsonObject | undefined {
  try {
    const value = parseJson(stdout);
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function silentFailure(executable: string, command: CniCommand, stdout: Uint8Array, failure: string): string {
  const prefix = `plugin ${executable} (${command}): netplugin failed`;
  if (stdout.length === 0) return `${prefix} with no error message: ${failure}`;
  const excerpt = excerptOf(stdout);
  return `${prefix} (${failure}) but printed no error object, ${excerpt === "" ? `only ${stdout.length} bytes` : `only ${JSON.stringify(excerpt)}`}`;
}

/** Characters of a plugin's chatter that are worth repeating. */
const EXCERPT = 200;

/**
 * Cuts out the beginning of what was printed, to the first brace or line end: a plugin that echoes its configuration, secrets included, is
 * not quoted.
 */
function excerptOf(stdout: Uint8Array): string {
  const text = new TextDecoder().decode(stdout.subarray(0, EXCERPT * 4));
  return (text.split(/[{\n]/, 1)[0] ?? "").slice(0, EXCERPT).trim();
}

/** A result has some hundred bytes; a program that prints this much is broken. */
const MAX_STDOUT = 4 * 1024 * 1024;

/**
 * Runs `executable` with `stdin` on its standard input.
 *
 * @throws TortieError `delegate-failed` when it cannot be started, `delegate-timeout`, `delegate-output` when it prints too much; the
 * signal's reason
 */
async function runPlugin(executable: string, run: Omit<DelegateCall, "args">): Promise<ProgramExit> {
  try {
    return await runProgram({ command: [executable], ...run, maxOutput: MAX_STDOUT });
  } catch (error) {
    if (!(error instanceof ProgramError)) throw error;
    switch (error.kind) {
      case "not-started":
        throw new TortieError("delegate-failed", `cannot run plugin ${executable}: ${error.message}`, { cause: error.cause });
      case "too-late":
        throw new TortieError("delegate-timeout", `plugin ${executable} (${run.env.CNI_COMMAND}) ${error.message}`);
      case "aborted":
        throw error.cause;
      case "too-much-output":
        throw new TortieError("delegate-output", `plugin ${executable} ${error.message}`);
    }
  }
}

/**
 * Looks a plugin up in the directories of CNI_PATH, first come first served: a regular file, after symbolic links, that may be executed.
 *
 * @param name `ipam.type`
 * @param cniPath directories joined by ":"
 * @throws TortieError `delegate-not-found`
 */
export function findPlugin(name: string, cniPath: string): string {
  if (name === "")
    throw new TortieError("delegate-not-found", "no plugin name provided", { next: "set ipam.type in the network configuration" });
  if (name.includes("/"))
    throw new TortieError("delegate-not-found", `invalid plugin name: ${name}`, { next: "ipam.type is a file name, not a path" });
  const { directories, candidates, executable } = lookUpPlugin(name, cniPath);
  if (directories.length === 0) throw new TortieError("delegate-not-found", `no paths provided to look for plugin ${JSON.stringify(name)}`);
  if (executable !== undefined) return executable;
  const hint = candidates.length > 0 ? `: ${candidates.join(", ")} may not be executed` : "";
  throw new TortieError("delegate-not-found", `failed to find plugin ${JSON.stringify(name)} in path [${directories.join(" ")}]${hint}`);
}
