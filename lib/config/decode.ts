/**
 * The network configuration, decoded: types are judged here, for every operation alike (C§1.1). Values that only ADD needs are judged
 * by `checkForAdd`, so that DEL never depends on them. Keys that Tortie does not know are not looked at; a delegate gets the raw bytes.
 */
import { CNI_VERSIONS } from "../cni/protocol.ts";
import { isJsonObject, type JsonObject } from "../json/value.ts";
import { decodeObject } from "./codec.ts";
import { DEFAULT_IPAM_LOCK_TIMEOUT_SECONDS } from "./ipam-lock-limits.ts";
import { ipamConfig } from "./ipam-section.ts";
import type { NetworkConfig } from "./network-config.ts";
import { NETCONF } from "./schema.ts";
import { agentConfig, featureControl, kubernetesConfig, logConfig, mesosLabels, policyConfig, runtimeConfig } from "./sections.ts";
import { validAttachments } from "./valid-attachments.ts";

export const DEFAULT_NODENAME_FILE = "/var/lib/calico/nodename";
export const DEFAULT_IPAM_LOCK_FILE = "/var/run/calico/ipam.lock";
export const DEFAULT_DATASTORE_PATH = "/var/lib/tortie/tortie.db";
export const DEFAULT_ENDPOINT_STATUS_DIR = "/var/run/calico/endpoint-status";

/**
 * @param netconf parsed standard input; `name` and `cniVersion` have been judged by the request layer
 * @throws TortieError `netconf-type`: "failed to load netconf: <path> must be <type>, not <value>"
 */
export function decodeNetworkConfig(netconf: JsonObject): NetworkConfig {
  const given = decodeObject(NETCONF, netconf);
  const prevResult = given.prevResult;
  return {
    cniVersion: CNI_VERSIONS.find((version) => version === given.cniVersion),
    name: given.name ?? "",
    type: given.type ?? "",
    ipam: ipamConfig(given.ipam),
    mtu: given.mtu ?? 0,
    numQueues: Math.max(1, given.num_queues ?? 1),
    deviceType: given.device_type ?? "",
    linkForm: given.link_form ?? "",
    chain: given.chain ?? "",
    groMaxSize: given.gro_max_size ?? 0,
    gsoMaxSize: given.gso_max_size ?? 0,
    nodename: given.nodename || undefined,
    nodenameFile: given.nodename_file || DEFAULT_NODENAME_FILE,
    nodenameFileOptional: given.nodename_file_optional ?? false,
    hostname: given.hostname || undefined,
    ipamLockFile: given.ipam_lock_file || DEFAULT_IPAM_LOCK_FILE,
    ipamLockTimeoutSeconds: given.ipam_lock_timeout_seconds || DEFAULT_IPAM_LOCK_TIMEOUT_SECONDS,
    dropPrivileges: given.drop_privileges ?? true,
    datastoreType: given.datastore_type || undefined,
    datastorePath: given.datastore_path || DEFAULT_DATASTORE_PATH,
    etcd: {
      endpoints: given.etcd_endpoints || undefined,
      discoverySrv: given.etcd_discovery_srv || undefined,
      keyFile: given.etcd_key_file || undefined,
      certFile: given.etcd_cert_file || undefined,
      caCertFile: given.etcd_ca_cert_file || undefined,
      authority: given.etcd_authority || undefined,
      scheme: given.etcd_scheme || undefined,
    },
    agent: agentConfig(given),
    log: logConfig(given),
    policy: policyConfig(given.policy),
    kubernetes: kubernetesConfig(given.kubernetes),
    calicoApiGroup: given.calico_api_group || undefined,
    qps: given.qps ?? 0,
    burst: given.burst ?? 0,
    featureControl: featureControl(given.feature_control),
    containerSettings: { allowIpForwarding: given.container_settings?.allow_ip_forwarding ?? false },
    includeDefaultRoutes: given.include_default_routes ?? false,
    dataplaneOptions: given.dataplane_options,
    readinessGates: given.readiness_gates ?? [],
    policySetupTimeoutSeconds: given.policy_setup_timeout_seconds ?? 0,
    endpointStatusDir: given.endpoint_status_dir || DEFAULT_ENDPOINT_STATUS_DIR,
    requireMtuFile: given.require_mtu_file ?? false,
    windowsUseSingleNetwork: given.windows_use_single_network ?? false,
    runtimeConfig: runtimeConfig(given.runtimeConfig),
    mesosLabels: mesosLabels(given.args),
    // A string here is accepted and ignored (recording type-prevResult).
    prevResult: isJsonObject(prevResult) ? prevResult : undefined,
    validAttachments: validAttachments(given["cni.dev/valid-attachments"], given["cni.dev/attachments"]),
  };
}
