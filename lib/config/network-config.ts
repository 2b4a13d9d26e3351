/**
 * The decoded network configuration: every key of C§1.2, plus Tortie's own (`datastore_path`, `ipam.pools`, `ipam.in_process`).
 * Field names are the keys in camel case; defaults that need no outside knowledge are already filled in.
 */
import type { CniVersion, ValidAttachment } from "../cni/protocol.ts";
import type { JsonObject, JsonValue } from "../json/value.ts";
import type { LogConfig } from "../log/file.ts";

/** Whether and how a call goes to the agent of this node (A§3.10). */
export interface AgentConfig {
  /** As given: `auto`, `require` or `off`; ADD refuses anything else. */
  readonly mode: string;
  /** `undefined`: where the agent's run directory is by default. */
  readonly socket: string | undefined;
  /** As given; ADD refuses what is out of range. */
  readonly waitSeconds: number;
  readonly timeoutSeconds: number;
}

export type DatastoreType = "local" | "kubernetes" | "etcdv3";

/** One entry of `ipam.pools`: a pool of the local datastore, made at first use. Values are judged by `checkLocalPools`. */
export interface LocalPool {
  readonly cidr: string;
  /** Default 26 for IPv4, 122 for IPv6. */
  readonly blockSize: number;
  /** Default: the CIDR's name (I§2.2). */
  readonly name: string;
  /** Default true: traffic that leaves the pools is masqueraded. */
  readonly natOutgoing: boolean;
}

export interface IpamConfig {
  /** Empty when absent. */
  readonly type: string;
  readonly subnet: string | undefined;
  /** As given: only host-local gives these two a shape, which is judged where they are used (C§2.4). */
  readonly ranges: JsonValue | undefined;
  readonly routes: JsonValue | undefined;
  readonly assignIpv4: boolean;
  readonly assignIpv6: boolean;
  readonly ipv4Pools: readonly string[] | undefined;
  readonly ipv6Pools: readonly string[] | undefined;
  readonly pools: readonly LocalPool[];
  /** false forces an exec of the IPAM executable even when it is the very file that runs. */
  readonly inProcess: boolean;
}

export interface PolicyConfig {
  readonly type: string;
  readonly k8sApiRoot: string | undefined;
  readonly k8sAuthToken: string | undefined;
  readonly k8sClientCertificate: string | undefined;
  readonly k8sClientKey: string | undefined;
  readonly k8sCertificateAuthority: string | undefined;
}

export interface KubernetesConfig {
  readonly kubeconfig: string | undefined;
  readonly k8sApiRoot: string | undefined;
  readonly nodeName: string | undefined;
}

export interface EtcdConfig {
  readonly endpoints: string | undefined;
  readonly discoverySrv: string | undefined;
  readonly keyFile: string | undefined;
  readonly certFile: string | undefined;
  readonly caCertFile: string | undefined;
  /** Host and port of one member, and its scheme: used where nothing else says where etcd is. */
  readonly authority: string | undefined;
  readonly scheme: string | undefined;
}

/** A label that Mesos gives a plain container. */
export interface MesosLabel {
  readonly key: string;
  readonly value: string;
}

/** What the runtime's capabilities put under `runtimeConfig`. */
export interface RuntimeConfig {
  /** `mac` capability. */
  readonly mac: string | undefined;
  /** `ips` capability: addresses, with or without prefix length. */
  readonly ips: readonly string[];
}

export interface NetworkConfig {
  readonly cniVersion: CniVersion | undefined;
  readonly name: string;
  readonly type: string;
  readonly ipam: IpamConfig;
  readonly mtu: number;
  /** Values of zero and below are 1 (C§1.2). */
  readonly numQueues: number;
  /** As given; ADD refuses anything but "", "veth" and "netkit". */
  readonly deviceType: string;
  /** As given; ADD refuses anything but "", "routed" and "endpoint". */
  readonly linkForm: string;
  /** As given; "attach": the interface is another plugin's, and only an endpoint is registered over it (A§3.8). */
  readonly chain: string;
  /** 0: the kernel's default. */
  readonly groMaxSize: number;
  readonly gsoMaxSize: number;
  readonly nodename: string | undefined;
  readonly nodenameFile: string;
  readonly nodenameFileOptional: boolean;
  readonly hostname: string | undefined;
  readonly ipamLockFile: string;
  readonly ipamLockTimeoutSeconds: number;
  /** false keeps root's capabilities for the whole call. */
  readonly dropPrivileges: boolean;
  /** As given; `undefined` when absent: see `chooseDatastore`. */
  readonly datastoreType: string | undefined;
  readonly datastorePath: string;
  readonly etcd: EtcdConfig;
  readonly agent: AgentConfig;
  readonly log: LogConfig;
  readonly policy: PolicyConfig;
  readonly kubernetes: KubernetesConfig;
  readonly calicoApiGroup: string | undefined;
  readonly qps: number;
  readonly burst: number;
  readonly featureControl: { readonly ipAddrsNoIpam: boolean; readonly floatingIps: boolean };
  readonly containerSettings: { readonly allowIpForwarding: boolean };
  readonly includeDefaultRoutes: boolean;
  /** `undefined` when absent; `type` and `socket` are checked by ADD and DEL. */
  readonly dataplaneOptions: JsonObject | undefined;
  readonly readinessGates: readonly string[];
  readonly policySetupTimeoutSeconds: number;
  readonly endpointStatusDir: string;
  readonly requireMtuFile: boolean;
  readonly windowsUseSingleNetwork: boolean;
  readonly runtimeConfig: RuntimeConfig;
  /** `args."org.apache.mesos".network_info.labels.labels`, raw (C§2.6). */
  readonly mesosLabels: readonly MesosLabel[];
  /** `prevResult` as it came; CHECK and DEL of CNI 0.4.0 and later carry it. */
  readonly prevResult: JsonObject | undefined;
  /** What `cni.dev/valid-attachments` and `cni.dev/attachments` list; `undefined` when neither is there. */
  readonly validAttachments: readonly ValidAttachment[] | undefined;
}
