/** The part of a configuration that is about etcd, where it says nothing: what a test gives stands alone. */
import type { Environment } from "../../../lib/cni/protocol.ts";
import type { EtcdConfig } from "../../../lib/config/decode.ts";
import { type EtcdSettings, resolveEtcdSettings } from "../../../lib/datastore/etcd/settings.ts";

export const NO_ETCD: EtcdConfig = {
  endpoints: undefined,
  discoverySrv: undefined,
  keyFile: undefined,
  certFile: undefined,
  caCertFile: undefined,
  authority: undefined,
  scheme: undefined,
};

/** How members at these URLs, joined by commas, are reached. */
export function settingsOf(endpoints: string, env: Environment = {}): EtcdSettings {
  return resolveEtcdSettings({ ...NO_ETCD, endpoints }, env);
}
