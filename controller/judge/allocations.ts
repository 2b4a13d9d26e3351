/**
 * Judges what every allocated address of the cluster is: in use, of a node that is gone, leaked, or not ours to judge. The rules are those
 * of kube-controllers (I§5.4); where Tortie is stricter it keeps an address that kube-controllers would release.
 */

import { WINDOWS_RESERVED_HANDLE } from "../../doctor/handles.ts";
import { type Allocation, allocationsOf, keyOf, type PlacedBlock, textAt } from "../../doctor/snapshot.ts";
import { sequenceOf } from "../../ipam-plugin/allocator/block.ts";
import { type Address, addressAt } from "../../lib/addresses/address.ts";
import { sanitised } from "../../lib/datastore/resources.ts";
import type { NamespacedName } from "../../lib/kubernetes/objects.ts";
import { isMachineHandle } from "../../lib/workload/identity.ts";
import type { PodView } from "../view/cluster-view.ts";

/**
 * `valid`: in use, or it may be. `departed`: its node is gone and no pod holds it. `leaked`: its node is there, and the pod it was for
 * does not hold it. `unjudged`: never released here.
 */
export type Verdict = "valid" | "departed" | "leaked" | "unjudged";

export interface JudgedAllocation {
  readonly verdict: Verdict;
  readonly address: Address;
  /** CIDR of its block. */
  readonly block: string;
  /** Sanitised; empty when the allocation has no handle. */
  readonly handle: string;
  readonly sequenceNumber: bigint;
  readonly node: string;
  /** Of the workload that it was for; empty when its attributes do not say. */
  readonly namespace: string;
  /** The pods that its attributes name: two while a virtual machine moves from one to the other, none for anything but a pod. */
  readonly pods: readonly PodOwner[];
  /** Of the node itself, which every other node sends to. */
  readonly isTunnel: boolean;
  /** A virtual machine keeps its addresses from one pod to the next. */
  readonly machine: string | undefined;
  /** The same at two looks for the same allocation only. */
  readonly key: string;
}

interface PodOwner extends NamespacedName {
  readonly node: string;
}

/** What Calico and Tortie write as the type of such an address (I§2.4). */
const TUNNELS: ReadonlySet<string> = new Set([
  "ipipTunnelAddress",
  "vxlanTunnelAddress",
  "vxlanV6TunnelAddress",
  "wireguardTunnelAddress",
  "wireguardV6TunnelAddress",
]);

/** What the judgement looks at. */
interface Holders {
  readonly nodes: ReadonlySet<string>;
  readonly pods: readonly PodView[];
  readonly pod: (namespace: string, name: string) => PodView | undefined;
}

export function judgeAllocations(blocks: readonly PlacedBlock[], holders: Holders): readonly JudgedAllocation[] {
  const held = heldBy(holders.pods);
  return blocks.flatMap((placed) => allocationsOf(placed).map((allocation) => judged(allocation, holders, held)));
}

function judged(allocation: Allocation, holders: Holders, held: Held): JudgedAllocation {
  const { placed, ordinal, attribute } = allocation;
  const { activeOwner = {}, alternateOwner = {} } = attribute;
  const handle = sanitised(attribute.handleId ?? "");
  const sequenceNumber = sequenceOf(placed.block, ordinal);
  const facts = {
    address: addressAt(placed.prefix, ordinal),
    block: placed.block.cidr,
    handle,
    sequenceNumber,
    node: activeOwner.node ?? "",
    namespace: activeOwner.namespace ?? "",
    pods: [activeOwner, alternateOwner].flatMap(podOwner),
    isTunnel: TUNNELS.has(activeOwner.type ?? ""),
    machine: activeOwner["vmi-name"] ?? (isMachineHandle(handle) ? "" : undefined),
    key: `${textAt(placed, ordinal)} ${handle} ${sequenceNumber}`,
  };
  return { ...facts, verdict: verdictOf(facts, activeOwner, holders, held) };
}

function podOwner({ node = "", namespace = "", pod = "" }: Readonly<Record<string, string>>): readonly PodOwner[] {
  return namespace === "" || pod === "" ? [] : [{ namespace, name: pod, node }];
}

type Facts = Omit<JudgedAllocation, "verdict">;

function verdictOf(facts: Facts, owner: Readonly<Record<string, string>>, holders: Holders, held: Held): Verdict {
  const { handle, node, pods } = facts;
  // Without handle or node the owner cannot be told (I§5.4).
  if (handle === "" || isReservedByWindows(facts) || node === "") return "unjudged";
  if (isHeld(facts, held)) return "valid";
  const isNodeThere = holders.nodes.has(node);
  // A tunnel's address goes with its node.
  if (facts.isTunnel) return isNodeThere ? "valid" : "departed";
  // Load balancers' addresses belong to Services; no object of the cluster says whether a container without a pod runs.
  if (owner.type !== undefined || pods.length === 0) return "unjudged";
  if (pods.some((one) => mayStillUse(holders.pod(one.namespace, one.name), one, facts.address))) return "valid";
  return isNodeThere ? "leaked" : "departed";
}

/** Recognises addresses that Windows keeps in every block of its nodes (I§3.7). */
export function isReservedByWindows({ handle }: Pick<Facts, "handle">): boolean {
  return handle.toLowerCase() === WINDOWS_RESERVED_HANDLE;
}

/** Addresses that living pods have, as keys. */
interface Held {
  /** By their statuses. */
  readonly statuses: ReadonlySet<string>;
  /** By their annotations, for each node. */
  readonly annotations: ReadonlyMap<string, ReadonlySet<string>>;
}

function heldBy(pods: readonly PodView[]): Held {
  const living = pods.filter(({ isFinished }) => !isFinished);
  const annotations = new Map<string, Set<string>>();
  for (const { node, annotated } of living) {
    const ofNode = annotations.getOrInsertComputed(node, () => new Set());
    // The node is proof enough only where the allocation names no pod (`isHeld`).
    annotated.prove((keys) => {
      for (const key of keys) ofNode.add(key);
    });
  }
  return { statuses: new Set(living.flatMap(({ addresses }) => addresses)), annotations };
}

/**
 * Says whether any pod has the address. A status says so for every allocation. An annotation does only for an allocation whose attributes
 * name no pod, and of the annotation's own node: an allocation that names a pod is compared with that pod alone.
 */
function isHeld({ address, node, pods }: Facts, { statuses, annotations }: Held): boolean {
  const key = keyOf(address);
  return statuses.has(key) || (pods.length === 0 && annotations.get(node)?.has(key) === true);
}

/**
 * Says whether the pod that the attributes of an allocation name may hold its address: it does, or it is on that node (or none yet) and has
 * named no address so far, or it names more than is read. The attributes are the proof that its annotations count.
 *
 * @param pod as it is now
 * @param owner as the attributes name it
 */
export function mayStillUse(pod: PodView | undefined, owner: PodOwner, address: Address): boolean {
  if (pod === undefined || pod.isFinished || pod.namespace !== owner.namespace || pod.name !== owner.name) return false;
  const named = [...pod.addresses, ...pod.annotated.prove((keys) => keys)];
  if (!pod.isWhole || named.includes(keyOf(address))) return true;
  return named.length === 0 && (pod.node === "" || pod.node === owner.node);
}

/** Nodes that own blocks or have addresses, and that do not exist. */
export function departedNodes(
  judgements: readonly JudgedAllocation[],
  owners: Iterable<string>,
  nodes: ReadonlySet<string>,
): ReadonlySet<string> {
  const named = [...owners, ...judgements.flatMap(({ node }) => (node === "" ? [] : [node]))];
  return new Set(named.filter((name) => !nodes.has(name)));
}
