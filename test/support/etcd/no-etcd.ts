/** The part of a configuration that is about etcd, where it says nothing: what a test gives stands alone. */
import type { EtcdConfig } from "../../../lib/config/decode.ts";

export const NO_ETCD: EtcdConfig = {
  endpoints: undefined,
  discoverySrv: undefined,
  keyFile: undefined,
  certFile: undefined,
  caCertFile: undefined,
  authority: undefined,
  scheme: undefined,
};
