/**
 * The port between the plan of an attachment and whatever makes it true: Linux, or another program by gRPC; eBPF has room beside them.
 *
 * Any number of calls may run at once in one process. None waits for the kernel with the thread blocked.
 */
import type { Sandbox } from "../lib/system/sandbox.ts";
import type { AttachmentName } from "./alias.ts";
import type { DesiredState, Difference } from "./desired-state.ts";
import type { NetworkReport, NodeState } from "./node-state.ts";

export interface Dataplane {
  /**
   * Makes the kernel hold `desired`. A failed call leaves nothing behind; disposing of the returned link removes it.
   * @param attachment for a dataplane in another program
   * @throws TortieError naming the object that could not be made; `netns-changed`
   */
  apply(sandbox: Sandbox, desired: DesiredState, attachment?: ExternalAttachment): Promise<AppliedLink>;
  /**
   * Compares the kernel with `desired` and names every difference that breaks the attachment; empty when all is well. Changes nothing.
   * Settings that an administrator or a chained plugin may change (sysctls, queues, and MAC and MTU but for `recorded`) are not compared.
   */
  inspect(sandbox: Sandbox, desired: DesiredState, recorded?: RecordedLink): Promise<readonly Difference[]>;
  /**
   * What differs of a pair that was made earlier: the host end with its settings, which only Tortie changes, or the pair as a whole
   * (`lacksPair`). What differs inside the sandbox is the container's own business.
   */
  drift(sandbox: Sandbox, recorded: RecordedPair): Promise<readonly Difference[]>;
  /**
   * Takes the differences of a host end away, and touches nothing where there is none. A pair that is gone is left to `apply`, which
   * needs addresses; an end that is not provably this attachment's is left alone.
   */
  mend(sandbox: Sandbox, recorded: RecordedPair): Promise<Mending>;
  /** Removes one link. A link that is gone counts as removed (C§4.7); a link that belongs to another attachment stays. */
  remove(link: AttachedLink | LinkOfAttachment): Promise<Removal>;
  /** The links of this host that carry a readable alias of Tortie's, and those whose creation was interrupted. */
  list(): Promise<readonly AttachedLink[]>;
  /**
   * Makes the node hold `state`. Host ends are guarded only from then on, so it comes before a container can send.
   * @returns what became of its `network`; `undefined` where it has none
   */
  applyNode(state: NodeState): Promise<NetworkReport | undefined>;
}

/** The link of an attachment that was just made. Disposing of it removes both ends, with addresses and routes. */
export interface AppliedLink extends AsyncDisposable {
  /** MAC of the pod end, lower case with colons. */
  readonly podMac: string;
  /** Where the dataplane has given the host end another name than was desired. */
  readonly hostInterface?: string;
  /** Of the host end; the kernel gives it to no other link of this namespace while the link exists. */
  readonly hostIndex: number;
  /** "veth" when the kernel has no netkit. */
  readonly kind: "veth" | "netkit";
  /** Non-fatal failures, one sentence each. */
  readonly warnings: readonly string[];
}

/** A pair that was made earlier, as its record has it. */
export interface RecordedPair {
  readonly desired: DesiredState;
  /** Index of the host end; `undefined` in a record that was written before the link was made. */
  readonly hostIndex?: number | undefined;
}

export interface Mending {
  readonly mended: readonly Difference[];
  /** What still differs: the kernel or another program does not let it be mended. */
  readonly left: readonly Difference[];
}

/** What a result says about the pod end, after whatever other plugins did to it. */
export interface RecordedLink {
  readonly mac?: string | undefined;
  readonly mtu?: number | undefined;
}

/** The link of an attachment that ends, by its names. */
export interface LinkOfAttachment {
  /** `podInterface` in this sandbox is removed, whatever its type. Absent: the sandbox is gone, or nobody can prove which it was. */
  readonly sandbox?: Sandbox | undefined;
  readonly podInterface: string;
  /** Also removed if it still exists and is this owner's: the kernel reaps a deleted namespace late. Empty: there can be none. */
  readonly hostInterface: string;
  readonly owner: AttachmentName;
  /** The host end is also removed where `apply` would replace it for an attachment with these predecessors. */
  readonly predecessors?: readonly string[];
}

/** A link as `list` found it. */
export interface AttachedLink {
  readonly hostInterface: string;
  readonly index: number;
  /** Absent: the link is unfinished. A killed process leaves such a link; a running ADD has one for a millisecond. */
  readonly owner?: AttachmentName;
}

export interface Removal {
  /** The present owner by the link's alias, when the link belongs to another attachment and was left alone. */
  readonly keptFor?: string;
}

interface ExternalPort {
  readonly name: string;
  readonly protocol: string;
  readonly port: number;
  readonly hostPort: number;
  readonly hostIP: string;
}

/** Who the attachment is for, under the names that others know. */
interface ExternalWorkload {
  readonly name: string;
  readonly namespace: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly endpoint: string;
  readonly node: string;
  readonly orchestrator: string;
  readonly pod: string;
  readonly ports: readonly ExternalPort[];
}

/** What a dataplane outside of this program is told beyond the state of the kernel: it enforces policy and routes by itself (C§4.6). */
export interface ExternalAttachment {
  readonly workload: ExternalWorkload;
  /** As the IPAM plugin gave them, with its mask. */
  readonly addresses: readonly { readonly address: string; readonly gateway?: string | undefined }[];
  /** Destinations, as text. */
  readonly routes: readonly string[];
  readonly allowIpForwarding: boolean;
}
