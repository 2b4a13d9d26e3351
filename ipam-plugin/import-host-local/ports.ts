/** What the upgrade from host-local works on (I§7): the allocator, host-local's directory, and in a cluster what only its API knows. */
import type { Logger } from "../../lib/log/logger.ts";
import type { Allocator } from "../allocator/allocator.ts";
import type { HostLocalDirectory } from "./host-local-directory.ts";

export interface UpgradePorts {
  readonly node: string;
  /** First part of the handles; `k8s-pod-network` in a cluster. */
  readonly network: string;
  readonly allocator: Pick<Allocator, "assignIp" | "attributesOf">;
  readonly directory: HostLocalDirectory;
  /** Absent on a node without a cluster: every container that host-local knows keeps its address, and no other node has to wait. */
  readonly cluster?: UpgradeCluster;
  readonly sleep: (milliseconds: number) => Promise<void>;
  readonly log: Pick<Logger, "info" | "error">;
}

/** Writes may throw DatastoreError `conflict`: they are tried again. */
export interface UpgradeCluster {
  /** Pods of this node. */
  pods(): Promise<readonly PodOfNode[]>;
  /** `spec.podCIDR` of this node. */
  podCidr(): Promise<string | undefined>;
  /** IPIP tunnel address of this node, as Calico's node resource has it. */
  tunnelAddress(): Promise<string | undefined>;
  setTunnelAddress(address: string): Promise<void>;
  /**
   * Makes `datastoreReady` of ClusterInformation false, so that no CNI plugin of Calico, on any node, gives out an address, and marks it
   * with this node's name.
   */
  pause(): Promise<void>;
  /** Whether the mark of this node is there, be it from an upgrade that was killed. */
  isPausing(): Promise<boolean>;
  /** Takes this node's mark away, and makes the cluster ready unless another node has marked it. */
  resume(): Promise<void>;
  /** Removes the CNI plugins that would go on giving out host-local's addresses; succeeds for those that do not exist. */
  removePlugins(): Promise<void>;
}

export interface PodOfNode {
  readonly namespace: string;
  readonly name: string;
  /** `status.podIPs`. */
  readonly addresses: readonly string[];
}
