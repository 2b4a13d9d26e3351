/**
 * Runs the program that a kubeconfig's `exec` names, and reads the credentials it prints (client.authentication.k8s.io, v1 and v1beta1).
 * Rare, so it is loaded only where it is needed.
 */

import { isAbsolute } from "node:path";
import { TortieError } from "../../errors/errors.ts";
import { isObject } from "../../json/decode.ts";
import { ProgramError, runProgram } from "../../system/run-program.ts";
import type { ClientCertificate, CredentialPlugin } from "../config/api-config.ts";
import { bearer, checkPem } from "../config/settings.ts";

/** Milliseconds; clouds' plugins ask a server and take a second or two. */
const LIMIT = 30_000;
const MAX_OUTPUT = 1024 * 1024;

const VERSIONS: readonly string[] = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];

export interface PluginCredentials {
  readonly certificate: ClientCertificate | undefined;
  readonly authorization: string | undefined;
  /** Milliseconds since 1970. */
  readonly expiresAt: number | undefined;
}

/**
 * @param owner for messages: the user of the kubeconfig
 * @throws TortieError `credentials-failed`
 */
export async function runCredentialPlugin(plugin: CredentialPlugin, owner: string, limitMs = LIMIT): Promise<PluginCredentials> {
  const what = `credential plugin ${plugin.command} of ${owner}`;
  const failed = (reason: string, cause?: unknown) => new TortieError("credentials-failed", `${what}: ${reason}`, { cause });
  if (!VERSIONS.includes(plugin.apiVersion))
    throw failed(`its apiVersion is ${JSON.stringify(plugin.apiVersion)}, not one of ${VERSIONS.join(", ")}`);
  if (plugin.needsTerminal) throw failed("it has interactiveMode Always, but nobody sits at a terminal here");

  const output = await run(plugin, limitMs, failed);
  let printed: unknown;
  try {
    printed = JSON.parse(output);
  } catch {
    // Neither the text nor the parser's message, which quotes it: there may be a token in it.
    throw failed("it printed something that is not JSON");
  }
  return readCredential(printed, plugin, failed);
}

type Failed = (reason: string, cause?: unknown) => TortieError;

async function run(plugin: CredentialPlugin, limitMs: number, failed: Failed): Promise<string> {
  const info = { apiVersion: plugin.apiVersion, kind: "ExecCredential", spec: { interactive: false, cluster: plugin.cluster } };
  const env = { ...process.env, ...plugin.env, KUBERNETES_EXEC_INFO: JSON.stringify(info) };
  const run = {
    command: [plugin.command, ...plugin.args],
    stdin: new Uint8Array(),
    env,
    timeoutMs: limitMs,
    maxOutput: MAX_OUTPUT,
  } as const;
  try {
    const { stdout, failure } = await runProgram(run);
    if (failure !== undefined) throw failed(`it ended with ${failure}; what it wrote on standard error says why`);
    return new TextDecoder().decode(stdout);
  } catch (error) {
    if (!(error instanceof ProgramError)) throw error;
    if (error.kind !== "not-started") throw failed(`it ${error.message}`);
    const hint = plugin.installHint === "" ? "" : ` (${plugin.installHint.trim()})`;
    const place = isAbsolute(plugin.command) ? "" : " in PATH";
    throw failed(`it cannot be run${place}: ${error.message}${hint}`, error.cause);
  }
}

function readCredential(printed: unknown, plugin: CredentialPlugin, failed: Failed): PluginCredentials {
  if (!isObject(printed) || printed.kind !== "ExecCredential") throw failed("it printed something that is no ExecCredential");
  if (printed.apiVersion !== plugin.apiVersion) {
    throw failed(`it printed an ExecCredential of ${JSON.stringify(printed.apiVersion)}, but ${plugin.apiVersion} was asked for`);
  }
  const { status } = printed;
  if (!isObject(status)) throw failed("the ExecCredential it printed has no status");
  const { token, clientCertificateData: certificate, clientKeyData: key, expirationTimestamp: expires } = status;
  if (!isTextOrAbsent(token) || !isTextOrAbsent(certificate) || !isTextOrAbsent(key) || !isTextOrAbsent(expires)) {
    throw failed("the status it printed has a member that is no string");
  }
  if (!certificate !== !key) throw failed("it printed a certificate without its key, or a key without its certificate");
  if (!token && !certificate) throw failed("it printed neither a token nor a certificate");
  const expiresAt = expires ? Date.parse(expires) : undefined;
  if (Number.isNaN(expiresAt)) throw failed("its expirationTimestamp is no time");
  return {
    authorization: token ? bearer(token, "the token of a credential plugin") : undefined,
    certificate:
      certificate && key
        ? {
            certificate: checkPem(certificate, "CERTIFICATE", "clientCertificateData of a credential plugin"),
            key: checkPem(key, "PRIVATE KEY", "clientKeyData of a credential plugin"),
          }
        : undefined,
    expiresAt,
  };
}

function isTextOrAbsent(value: unknown): value is string | undefined | null {
  return value === undefined || value === null || typeof value === "string";
}
