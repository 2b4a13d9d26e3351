/**
 * Frames a call that a plugin serves (C§0.1, I§1.2): environment and standard input in, one JSON document or nothing on standard
 * output, exit status 0 or 1. Nothing else may write to standard output (design, invariant 1).
 */

import { renderError } from "../lib/cni/error-output.ts";
import type { CniRequest, Environment } from "../lib/cni/protocol.ts";
import { readCall, readStandardInput } from "../lib/cni/request.ts";
import type { NetworkConfig } from "../lib/config/decode.ts";
import { decodeNetworkConfig } from "../lib/config/decode.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { createLogger, type Logger } from "../lib/log/logger.ts";
import { Secrets } from "../lib/log/secrets.ts";
import { exitNow } from "../lib/system/libc.ts";
import { refuseRuntimeVariables } from "../lib/system/privileges.ts";
import { warnOfExposedFiles } from "./least-privilege.ts";
import { print, printError } from "./output.ts";
import { undone } from "./unprinted.ts";

export interface Plugin {
  readonly name: string;
  /**
   * Serves one request; ADD returns its result as it is to be printed, the other verbs nothing.
   * @param signal aborts when the process shall end: an ADD takes back what it has made
   */
  serve(request: CniRequest, config: NetworkConfig, log: Logger, signal: AbortSignal): Promise<string | undefined>;
}

/** Ends the process: what is open then is not closed (lib/system/libc.ts). */
export async function serveCall(...call: Parameters<typeof exitStatusOf>): Promise<never> {
  return exitNow(await exitStatusOf(...call));
}

async function exitStatusOf(plugin: Plugin, env: Environment, readStdin = readStandardInput): Promise<number> {
  const secrets = new Secrets();
  try {
    refuseRuntimeVariables(env);
    const request = readCall(env, readStdin);
    const result = await serveLogged(plugin, request, secrets);
    if (result !== undefined) printResult(result, env, request);
    return 0;
  } catch (error) {
    fail(renderError(error, secrets));
    return error instanceof TortieError && error.word === "operation-interrupted" ? TERMINATED : 1;
  }
}

/** @throws TortieError `stdout-unwritable` */
function printResult(result: string, env: Environment, { stdin }: CniRequest): void {
  try {
    print(result);
  } catch (cause) {
    throw undone(messageOf(cause), { env, stdin });
  }
}

/** Writes the error to standard error where standard output cannot be written: closed, or a pipe without a reader. */
function fail(error: string): void {
  try {
    print(error);
  } catch (cause) {
    printError(`cannot write to standard output: ${messageOf(cause)}\n${error}\n`);
  }
}

/** Says in one line of the log how it ended, whatever happened. */
async function serveLogged(plugin: Plugin, request: CniRequest, secrets: Secrets): Promise<string | undefined> {
  const config = decodeNetworkConfig(request.netconf);
  // Delegates receive this token and may print it. The API client registers the secrets that it reads by itself.
  secrets.add(config.policy.k8sAuthToken);
  // The process exists for this call alone, so the call's time counts from exec(2).
  const log = createLogger(config.log, request, { secrets, spentMs: performance.now() });
  // Written at once, so that the log also names an operation that is killed.
  log.writeNow("info", `${request.command} begins`);
  warnOfExposedFiles(request, config, log);
  try {
    const result = await plugin.serve(request, config, log, untilTerminated(request, log));
    log.info(`${request.command} done`);
    return result;
  } catch (error) {
    log.error(`${request.command} failed`, { error });
    throw error;
  } finally {
    await log.flush();
  }
}

/** Is the exit status of a process that SIGTERM ended, as shells give it. */
const TERMINATED = 143;

/**
 * Handles SIGTERM: an ADD hears of it and takes back what it has made; any other operation ends at once, and is repeated by the runtime.
 * Either way the log is written before. A second SIGTERM ends an ADD as well.
 */
function untilTerminated({ command }: CniRequest, log: Logger): AbortSignal {
  const interruption = new AbortController();
  process.on("SIGTERM", () => {
    log.writeNow("error", "SIGTERM: the process was asked to end");
    if (command !== "ADD" || interruption.signal.aborted) exitNow(TERMINATED);
    interruption.abort(new TortieError("operation-interrupted", `${command} was interrupted by SIGTERM`));
  });
  return interruption.signal;
}
