/** Every key that Tortie knows, with its type: those of Calico's plugins (C§1.2), of the specification, and its own. */
import { anyObject, anything, boolean, integer, keysOf, natural, text, texts } from "./codec.ts";
import { ipamSchema } from "./ipam-section.ts";
import {
  agentMembers,
  argsSchema,
  containerSchema,
  featureSchema,
  kubernetesSchema,
  logMembers,
  policySchema,
  runtimeSchema,
} from "./sections.ts";
import { attachmentsSchema } from "./valid-attachments.ts";

export const NETCONF = {
  cniVersion: text,
  name: text,
  type: text,
  ipam: ipamSchema,
  args: argsSchema,
  mtu: integer,
  num_queues: integer,
  device_type: text,
  link_form: text,
  chain: text,
  gro_max_size: natural,
  gso_max_size: natural,
  nodename: text,
  nodename_file: text,
  nodename_file_optional: boolean,
  hostname: text,
  ipam_lock_file: text,
  ipam_lock_timeout_seconds: integer,
  drop_privileges: boolean,
  datastore_type: text,
  datastore_path: text,
  etcd_endpoints: text,
  etcd_discovery_srv: text,
  etcd_key_file: text,
  etcd_cert_file: text,
  etcd_ca_cert_file: text,
  etcd_authority: text,
  etcd_scheme: text,
  ...agentMembers,
  ...logMembers,
  policy: policySchema,
  kubernetes: kubernetesSchema,
  calico_api_group: text,
  qps: integer,
  burst: integer,
  feature_control: featureSchema,
  container_settings: containerSchema,
  include_default_routes: boolean,
  dataplane_options: anyObject,
  readiness_gates: texts,
  policy_setup_timeout_seconds: integer,
  endpoint_status_dir: text,
  require_mtu_file: boolean,
  runtimeConfig: runtimeSchema,
  // Calico never reads it, whatever its type (recording type-prevResult).
  prevResult: anything,
  "cni.dev/valid-attachments": attachmentsSchema,
  "cni.dev/attachments": attachmentsSchema,

  // Without effect on Linux, but a wrong type is refused as Calico refuses it.
  mode: text,
  vxlan_mac_prefix: text,
  vxlan_vni: natural,
  windows_use_single_network: boolean,
  windows_disable_default_deny_all_policy: boolean,
  windows_disable_host_subnet_nat_exclusion: boolean,
  windows_loopback_DSR: boolean,
  windows_pod_deletion_timestamp_timeout: integer,
};

/** Every known key by its path; list elements are written "ipam.pools[].cidr". For the documentation and its test. */
export function knownKeys(): { readonly path: string; readonly type: string }[] {
  return keysOf(NETCONF);
}
