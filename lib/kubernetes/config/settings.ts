/**
 * Which of three places a setting comes from (C§1.4): a variable with the prefix CALICO_ beats the network configuration, which beats
 * the plain variable. Empty counts as not given.
 */
import type { Environment } from "../../cni/environment.ts";
import { TortieError } from "../../errors/errors.ts";

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

/** A whole or fractional number. @throws TortieError `netconf-value` */
export function numberSetting(env: Environment, variable: string, configured: number, fallback: number): number {
  const setting = settingOf(env, variable, configured === 0 ? undefined : String(configured), variable);
  if (setting === undefined) return fallback;
  const value = Number(setting.value);
  if (!Number.isFinite(value)) throw badSetting(setting, "a number");
  return value;
}

/** The texts that Go's strconv.ParseBool takes. @throws TortieError `netconf-value` */
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
