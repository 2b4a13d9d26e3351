/**
 * Describes what the rest of the agent may ask about policy: the REST API, the health check and the figures read it, `start.ts` provides it.
 * A node without policy has no view.
 */
import type { DropCount, JudgedCount } from "../../dataplane/nftables/policy/counters.ts";
import type { DropReason } from "../../dataplane/nftables/policy/log-prefix.ts";
import type { Direction } from "../../dataplane/packet-policy.ts";
import type { Address } from "../../lib/addresses/address.ts";
import type { Enforcement, Flow, Judgement, NamedPort, PolicyStatus } from "../../policy/model.ts";
import type { Drop } from "./drop.ts";
import type { AddressConflict, UnreadKind } from "./sources/model.ts";

/** An endpoint of this node as policy knows it. */
export interface ViewedEndpoint {
  /** Name of the host end. */
  readonly hostInterface: string;
  /** "namespace/name"; `undefined`: it is no pod of the cluster. */
  readonly pod: string | undefined;
  readonly addresses: readonly Address[];
}

/** An endpoint for which the kernel does not hold yet what the policies say. */
export interface PendingEndpoint {
  readonly hostInterface: string;
  /** Says what stands in the way, for an administrator. */
  readonly reason: string;
}

/** How far the kernel holds one policy. */
export interface Realisation {
  /** The version that the kernel holds; `undefined`: none. */
  readonly resourceVersion: string | undefined;
  /** Endpoints that the policy selects, or did, and that wait. */
  readonly pending: readonly PendingEndpoint[];
}

/** Counts the drops that were seen, each by itself. */
export interface ShownDrops {
  readonly direction: Direction;
  readonly reason: DropReason;
  readonly packets: number;
}

/** Sizes for the figures. */
export interface PolicyFigures {
  readonly classes: number;
  /** Elements of all sets and maps of the table. */
  readonly elements: number;
}

/** Remembers the packets that were dropped, newest last. */
export interface DropHistory {
  /** @param hostInterface `undefined`: those of all endpoints, by time */
  recent(hostInterface?: string): readonly Drop[];
  /** Counts those since the agent's start that the kernel has logged and that could not be shown. */
  readonly missed: number;
  /** Counts those that were seen since the agent's start. */
  shown(): readonly ShownDrops[];
  /**
   * Calls `listener` for each drop from now on. The listener decides what to do when it cannot keep up.
   * @returns what ends it
   */
  follow(listener: (drop: Drop) => void): () => void;
}

export interface PolicyView {
  readonly enforcement: Enforcement;
  /** Says what keeps the kernel from holding what the objects say: a source out of sync, a pass that failed. Empty: nothing. */
  gaps(): readonly string[];
  /** Names the sources that are not in sync. */
  unsynced(): readonly string[];
  unread(): readonly UnreadKind[];
  conflicts(): readonly AddressConflict[];
  figures(): PolicyFigures;

  policies(): readonly PolicyStatus[];
  judge(flow: Flow): Judgement;
  endpoints(): readonly ViewedEndpoint[];
  /** Says whether a host end is closed because nobody knows its pod. */
  isClosed(hostInterface: string): boolean;
  /** Addresses of a pod anywhere in the cluster; empty for one that is not known. @param pod "namespace/name" */
  addressesOf(pod: string): readonly Address[];
  /** The pod that has the address, anywhere in the cluster. @returns "namespace/name" */
  podAt(address: Address): string | undefined;
  /**
   * Named ports of a pod anywhere in the cluster; the API server is asked for those that nobody here needs.
   * @param pod "namespace/name" @throws Error that says why they cannot be known
   */
  portsOf(pod: string): Promise<readonly NamedPort[]>;
  /** Number of the cluster's identity of a pod's labels; `undefined` where none is known. @param pod "namespace/name" */
  identityOf(pod: string): number | undefined;

  /** @param policy "namespace/name" */
  realisation(policy: string): Realisation;
  /** All endpoints that wait for a pass, whatever policy it is for. */
  pending(): readonly PendingEndpoint[];
  /**
   * Waits until the copies hold everything that the sources had when this was called, and a pass has ended, well or not, that took it all.
   * @throws the signal's reason; Error when a source cannot be asked
   */
  caughtUp(signal: AbortSignal): Promise<void>;
  /** Waits for the end of the next pass. @throws the signal's reason */
  changed(signal: AbortSignal): Promise<void>;

  /**
   * Compares the kernel's table with what the policies say; nothing while a pass is about to change it.
   * @returns one phrase for each difference @throws TortieError `policy-failed`
   */
  differences(): Promise<readonly string[]>;
  /**
   * Compares the kernel's table with what the policies say now, and mends it.
   * @returns what differed, one phrase each @throws TortieError `policy-failed`, `policy-not-ready`; the signal's reason
   */
  mend(signal: AbortSignal): Promise<readonly string[]>;

  readonly drops: DropHistory;
  /** Asks the kernel how many packets were dropped since the table was made. @throws TortieError `policy-failed` */
  counters(): Promise<readonly DropCount[]>;
  /** Packets that began connections and were judged. @throws TortieError `policy-failed` */
  judged(): Promise<readonly JudgedCount[]>;
}
