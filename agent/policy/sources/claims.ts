/** Lists what is said of pods and their addresses, and by whom; `AddressBook` decides what of it is believed. */
import type { Address, Prefix } from "../../../lib/addresses/address.ts";
import type { Claimed } from "../../../lib/system/claimed.ts";
import type { NamedPort, PeerPod } from "../../../policy/model.ts";

/** A pod as its metadata has it. */
export interface ClaimingPod extends Pick<PeerPod, "namespace" | "name" | "labels"> {
  readonly claim: Claimed<readonly Address[]>;
}

/** What else its whole object says, in fields that no owner of a pod can write later: the spec's, and the status of kubelet. */
export interface PodFacts {
  readonly node: string;
  readonly isHostNetwork: boolean;
  readonly isFinished: boolean;
  readonly podIPs: readonly Address[];
  readonly ports: readonly NamedPort[];
}

/** A block of the allocator: which pod each of its addresses is given to, by the address as text. */
export interface HeldBlock {
  readonly cidr: Prefix;
  /** "namespace/name". */
  readonly holders: ReadonlyMap<string, string>;
}

/** An endpoint that a plugin or this agent has recorded. */
export interface RecordedPod {
  /** `undefined`: it is no pod. */
  readonly pod: Pick<PeerPod, "namespace" | "name" | "labels"> | undefined;
  readonly addresses: readonly Address[];
}
