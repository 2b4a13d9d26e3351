/** What a store keeps of one attachment, and what Felix enforces by it: Calico's WorkloadEndpoint (C§7). */

/** Key of a workload endpoint (C§7.2). */
export interface EndpointKey {
  readonly namespace: string;
  readonly name: string;
}

export interface EndpointPort {
  readonly name: string;
  readonly protocol: string;
  readonly port: number;
  readonly hostPort: number;
  readonly hostIP: string;
}

/**
 * Limits that Felix enforces on an endpoint (C§3.4). Bandwidth and peak rate are in bit/s, burst in bits, minburst in bytes, packet rate in
 * packets/s; a limit that is not set is absent.
 */
export type QosControls = {
  readonly [limit in `${"ingress" | "egress"}${QosLimit}`]?: number;
} & {
  /** 0 to 63, or a name such as "AF11", upper case. */
  readonly dscp?: number | string;
};

/** What is limited in each direction. */
export type QosLimit = "Bandwidth" | "Burst" | "Peakrate" | "Minburst" | "PacketRate" | "PacketBurst" | "MaxConnections";

/** C§7.1, with the part of the metadata that is ours to write. Empty strings and lists are left out on the wire. */
export interface WorkloadEndpoint {
  readonly name: string;
  readonly namespace: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly orchestrator: string;
  readonly node: string;
  readonly containerID: string;
  readonly pod: string;
  readonly endpoint: string;
  readonly serviceAccountName: string;
  readonly generateName: string;
  /** /32 and /128. */
  readonly ipNetworks: readonly string[];
  readonly ipNATs: readonly { readonly internalIP: string; readonly externalIP: string }[];
  readonly profiles: readonly string[];
  readonly interfaceName: string;
  readonly mac: string;
  readonly ports: readonly EndpointPort[];
  readonly allowSpoofedSourcePrefixes: readonly string[];
  /**
   * Only annotations of its pod name its addresses, which whoever may patch the pod writes: nothing is granted for them (design,
   * invariant 17). Absent where kubelet or the endpoint's own node says them.
   */
  readonly isClaimed?: true;
  /** Of the metadata: only what a reader of pods passes on (C§3.1). */
  readonly annotations?: Readonly<Record<string, string>>;
  /** Only of endpoints that are read from pods: an ADD does not store them (C§3.4). */
  readonly qosControls?: QosControls;
}
