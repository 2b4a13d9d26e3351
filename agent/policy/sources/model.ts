/**
 * Says what a source of policy is, whatever the datastore: it tells the policy engine of policies, namespaces and pods, and says how far
 * that can be relied on. Addresses leave here proven (design, invariant 17): an engine need not ask whose they are.
 */
import type { Address } from "../../../lib/addresses/address.ts";
import type { Labels, LocalEndpoint, PeerPod, PolicyObject } from "../../../policy/model.ts";

/** What the sources need of the engine. */
export interface PolicySink {
  setNamespace(name: string, labels: Labels | undefined): void;
  /** @param key "namespace/name" */
  setPolicy(key: string, policy: PolicyObject | undefined): void;
  /** @param key "namespace/name" */
  setPeer(key: string, pod: PeerPod | undefined): void;
  /** A policy in force names a port in egress: ports of pods elsewhere are needed. */
  readonly needsPortsOfPeers: boolean;
}

/** Pods that all prove that an address is theirs, or one, where a container of this node that is no pod has it. It belongs to none. */
export interface AddressConflict {
  readonly address: string;
  /** "namespace/name", sorted. */
  readonly pods: readonly string[];
}

/** A pod that claims an address which is not believed: another pod's, or nobody's that is known. */
export interface RefusedClaim {
  readonly address: string;
  /** "namespace/name". */
  readonly pod: string;
  /** Why, as the end of a sentence: "block 10.1.0.0/26 gives it to shop/db". */
  readonly reason: string;
}

/** Objects that say something of policy and that nobody here reads. */
export interface UnreadKind {
  /** "NetworkPolicy.crd.projectcalico.org". */
  readonly kind: string;
  /** There are so many, or more. */
  readonly atLeast: number;
}

export interface PolicySources extends AsyncDisposable {
  /**
   * Begins to tell the sink, and returns at once: what is there comes as it is read.
   * @param onChange is called after each telling; the sink's changes are to be taken soon
   */
  start(sink: PolicySink, onChange: () => void): void;
  /** Names the first source that is not read or not followed, and why; `undefined`: what the sink knows is what is so. */
  readonly gap: string | undefined;
  /** Each source has been read once: what the sink has not heard is not there, and may be taken away from the kernel. Stays true. */
  readonly isComplete: boolean;
  /** Waits until there is no gap. @throws the signal's reason */
  untilSynced(signal: AbortSignal): Promise<void>;
  /** Waits until the sink has heard everything that was there when this was called: costs a list of each. @throws as they do */
  caughtUp(signal: AbortSignal): Promise<void>;
  /**
   * Tells of an endpoint of this node, which proves its addresses and makes its pod a peer before any server knows of it.
   * @param hostInterface name of its host end
   */
  setOwn(hostInterface: string, endpoint: LocalEndpoint | undefined): void;
  /** Looks whether the sink needs ports of peers: to be called when it has taken its changes. */
  demand(): void;
  /** @param key "namespace/name" @returns the pod, anywhere in the cluster, as the sink has heard of it */
  peer(key: string): PeerPod | undefined;
  /** Names the pod, "namespace/name", whose address this is. */
  podAt(address: Address): string | undefined;
  /** Sorted by address. */
  conflicts(): readonly AddressConflict[];
  /** Sorted by pod and address. */
  refused(): readonly RefusedClaim[];
  /** What exists and is not read, one entry for each kind of which there is any. */
  unread(): readonly UnreadKind[];
  /** What cannot be read or looked for: a file, a right that is missing. One sentence each. */
  problems(): readonly string[];
}
