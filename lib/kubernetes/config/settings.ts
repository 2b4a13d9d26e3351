/**
 * Decides which of three places a setting comes from (C§1.4): a variable with the prefix CALICO_ beats the network configuration, which
 * beats the plain variable. Empty counts as not given.
 */
import type { Environment } from "../../cni/protocol.ts";
import { messageOf, TortieError } from "../../errors/errors.ts";
import { readText } from "../../system/files.ts";

/** A value and where it was found, for messages. */
export interface Setting {
  readonly value: string;
  readonly source: string;
}

/** @param configured the value in the network configuration and the path of its key */
export function settingOf(env: Environment, variable: string, configured?: string, key?: string): Setting | undefined {
  const prefixed = `CALICO_${variable}`;
  if (env[prefixed]) return { value: env[prefixed], source: `environment variable ${prefixed}` };
  if (configured) return { value: configured, source: `key ${key ?? variable}` };
  const plain = env[variable];
  return plain ? { value: plain, source: `environment variable ${variable}` } : undefined;
}

/** Reads a whole or fractional number. @throws TortieError `netconf-value` */
export function numberSetting(env: Environment, variable: string, configured: number, fallback: number): number {
  const setting = settingOf(env, variable, configured === 0 ? undefined : String(configured), variable);
  if (setting === undefined) return fallback;
  const value = Number(setting.value);
  if (!Number.isFinite(value)) throw badSetting(setting, "a number");
  return value;
}

/** Reads the texts that Go's strconv.ParseBool takes. @throws TortieError `netconf-value` */
export function booleanSetting(env: Environment, variable: string): boolean | undefined {
  const setting = settingOf(env, variable);
  if (setting === undefined) return undefined;
  if (["1", "t", "T", "true", "TRUE", "True"].includes(setting.value)) return true;
  if (["0", "f", "F", "false", "FALSE", "False"].includes(setting.value)) return false;
  throw badSetting(setting, "true or false");
}

function badSetting(setting: Setting, wanted: string): TortieError {
  return new TortieError("netconf-value", `${setting.source} is ${JSON.stringify(setting.value)}, which is not ${wanted}`);
}

export type PemKind = "CERTIFICATE" | "PRIVATE KEY";

/** @param place where the path was given: `key certificate-authority of cluster "c" in FILE` @throws TortieError `kubeconfig-unreadable` */
export function readNamedFile(path: string, place: string): string {
  try {
    return readText(path);
  } catch (cause) {
    throw new TortieError("kubeconfig-unreadable", `unable to read ${place}: ${messageOf(cause)}`, { cause });
  }
}

/** @throws TortieError `kubeconfig-invalid` when `text` has no such block */
export function checkPem(text: string, kind: PemKind, place: string): string {
  // Keys are of several kinds: "RSA PRIVATE KEY", "EC PRIVATE KEY", "PRIVATE KEY".
  const begin = text.indexOf("-----BEGIN ");
  if (begin < 0 || !text.includes(`${kind}-----`, begin)) {
    throw new TortieError("kubeconfig-invalid", `${place} holds no PEM block of kind ${kind}`);
  }
  return text;
}

/** @throws TortieError `kubeconfig-invalid` */
export function decodeBase64(text: string, place: string): string {
  try {
    return atob(text);
  } catch (cause) {
    throw new TortieError("kubeconfig-invalid", `${place} is not base64`, { cause });
  }
}

/**
 * Writes a bearer token as it may stand in a header.
 *
 * @throws TortieError `kubeconfig-invalid` when it is empty or would break the header
 */
export function bearer(text: string, place: string): string {
  const token = text.trim();
  if (token === "") throw new TortieError("kubeconfig-invalid", `${place} is empty`);
  if (!/^[!-~]*$/.test(token)) {
    throw new TortieError("kubeconfig-invalid", `${place} holds white space or characters that no token has`);
  }
  return `Bearer ${token}`;
}
