/**
 * Decodes the network configuration: types are judged here, for every operation alike (C§1.1). Values that only ADD needs are judged
 * by `checkForAdd`, so that DEL never depends on them. Keys that Tortie does not know are not looked at; a delegate gets the raw bytes.
 */
import { CNI_VERSIONS, type ValidAttachment } from "../cni/protocol.ts";
import { TortieError } from "../errors/errors.ts";
import { isJsonObject, type JsonObject } from "../json/value.ts";
import {
  anyObject,
  anything,
  boolean,
  type Codec,
  type Decoded,
  decodeObject,
  integer,
  list,
  natural,
  record,
  text,
  texts,
} from "./codec.ts";
import { ipamConfig, ipamSchema } from "./ipam-section.ts";
import { DEFAULT_IPAM_LOCK_TIMEOUT_SECONDS } from "./limits.ts";
import {
  agentConfig,
  agentMembers,
  containerSchema,
  etcdConfig,
  etcdMembers,
  featureControl,
  featureSchema,
  kubernetesConfig,
  kubernetesSchema,
  logConfig,
  logMembers,
  policyConfig,
  policySchema,
  runtimeConfig,
  runtimeSchema,
} from "./sections.ts";

export const DEFAULT_NODENAME_FILE = "/var/lib/calico/nodename";
export const DEFAULT_IPAM_LOCK_FILE = "/var/run/calico/ipam.lock";
export const DEFAULT_DATASTORE_PATH = "/var/lib/tortie/tortie.db";
export const DEFAULT_ENDPOINT_STATUS_DIR = "/var/run/calico/endpoint-status";

const attachment = record({ containerID: text, ifname: text });

const attachments = list(attachment, "a list of objects", { containerID: undefined, ifname: undefined });

/**
 * The attachments that a runtime still knows when it calls GC. The specification and libcni's early versions name the key differently,
 * so libcni writes both; and its list of a node without containers is `null` (containernetworking/cni #1101, #1103). A key that is there
 * with `null` is an empty list: a codec is only asked about keys that are there.
 */
const attachmentsSchema: Codec<readonly Decoded<typeof attachment>[]> = {
  ...attachments,
  decode: (found) => attachments.decode(found) ?? [],
};

/** Every key that Tortie knows, with its type: those of Calico's plugins (C§1.2), of the specification, and its own. */
export const NETCONF = {
  cniVersion: text,
  name: text,
  type: text,
  ipam: ipamSchema,
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
  ...etcdMembers,
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

/**
 * @param netconf parsed standard input; `name` and `cniVersion` have been judged by the request layer
 * @throws TortieError `netconf-type`: "failed to load netconf: <path> must be <type>, not <value>"
 */
export function decodeNetworkConfig(netconf: JsonObject) {
  const given = decodeObject(NETCONF, netconf);
  const prevResult = given.prevResult;
  return {
    cniVersion: CNI_VERSIONS.find((version) => version === given.cniVersion),
    name: given.name ?? "",
    type: given.type ?? "",
    ipam: ipamConfig(given.ipam),
    mtu: given.mtu ?? 0,
    /** Values of zero and below are 1 (C§1.2). */
    numQueues: Math.max(1, given.num_queues ?? 1),
    /** As given; ADD refuses anything but "", "veth" and "netkit". */
    deviceType: given.device_type ?? "",
    /** As given; ADD refuses anything but "", "routed" and "endpoint". */
    linkForm: given.link_form ?? "",
    /** As given; "attach": the interface is another plugin's, and only an endpoint is registered over it (A§3.8). */
    chain: given.chain ?? "",
    /** 0: the kernel's default, as with the next one. */
    groMaxSize: given.gro_max_size ?? 0,
    gsoMaxSize: given.gso_max_size ?? 0,
    nodename: given.nodename || undefined,
    nodenameFile: given.nodename_file || DEFAULT_NODENAME_FILE,
    nodenameFileOptional: given.nodename_file_optional ?? false,
    hostname: given.hostname || undefined,
    ipamLockFile: given.ipam_lock_file || DEFAULT_IPAM_LOCK_FILE,
    ipamLockTimeoutSeconds: given.ipam_lock_timeout_seconds || DEFAULT_IPAM_LOCK_TIMEOUT_SECONDS,
    /** false keeps root's capabilities for the whole call. */
    dropPrivileges: given.drop_privileges ?? true,
    /** As given; `undefined` when absent: see `chooseDatastore`. */
    datastoreType: given.datastore_type || undefined,
    datastorePath: given.datastore_path || DEFAULT_DATASTORE_PATH,
    etcd: etcdConfig(given),
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
    /** `undefined` when absent; ADD checks `type`. */
    dataplaneOptions: given.dataplane_options,
    readinessGates: given.readiness_gates ?? [],
    policySetupTimeoutSeconds: given.policy_setup_timeout_seconds ?? 0,
    endpointStatusDir: given.endpoint_status_dir || DEFAULT_ENDPOINT_STATUS_DIR,
    requireMtuFile: given.require_mtu_file ?? false,
    windowsUseSingleNetwork: given.windows_use_single_network ?? false,
    runtimeConfig: runtimeConfig(given.runtimeConfig),
    // As it came; CHECK and DEL of CNI 0.4.0 and later carry it. A string here is accepted and ignored (recording type-prevResult).
    prevResult: isJsonObject(prevResult) ? prevResult : undefined,
    /** What `cni.dev/valid-attachments` and `cni.dev/attachments` list; `undefined` when neither is there. */
    validAttachments: listedAttachments(given["cni.dev/valid-attachments"], given["cni.dev/attachments"]),
  };
}

type Attachments = Decoded<typeof attachmentsSchema> | undefined;

/** Reads what either key lists; `undefined` when neither is there. */
function listedAttachments(...given: readonly Attachments[]): readonly ValidAttachment[] | undefined {
  if (given.every((listed) => listed === undefined)) return undefined;
  return given
    .flatMap((listed) => listed ?? [])
    .map(({ containerID, ifname }) => ({ containerID: containerID ?? "", ifname: ifname ?? "" }));
}

/**
 * Lists the attachments that GC leaves alone.
 *
 * @throws TortieError `attachments-missing`: an absent list is no empty one, it would cost every container its network
 */
export function attachmentsToKeep({ validAttachments }: Pick<NetworkConfig, "validAttachments">): readonly ValidAttachment[] {
  if (validAttachments !== undefined) return validAttachments;
  throw new TortieError(
    "attachments-missing",
    'GC needs the key "cni.dev/valid-attachments" or "cni.dev/attachments": without them every container would lose its network and addresses',
  );
}

/**
 * The decoded network configuration: every key of C§1.2, plus Tortie's own (`datastore_path`, `ipam.pools`, `ipam.in_process`). Field names
 * are the keys in camel case; the decoder fills in the defaults that need no outside knowledge.
 */
export type NetworkConfig = Readonly<ReturnType<typeof decodeNetworkConfig>>;
export type EtcdConfig = NetworkConfig["etcd"];

export type DatastoreType = "local" | "kubernetes" | "etcdv3";
