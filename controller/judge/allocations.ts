/**
 * What every allocated address of the cluster is: in use, of a node that is gone, leaked, or not ours to judge. The rules are those of
 * kube-controllers (I§5.4); where Tortie is stricter it keeps an address that kube-controllers would release.
 */

import { WINDOWS_RESERVED_HANDLE } from "../../doctor/rules/handle-rules.ts";
import { type Allocation, allocationsOf, keyOf, type PlacedBlock, textAt } from "../../doctor/snapshot.ts";
import { sanitised, sequenceOf } from "../../ipam-plugin/allocator/block.ts";
import { FROM_HOST_LOCAL } from "../../ipam-plugin/workload.ts";
import { type Address, addressAt } from "../../lib/addresses/address.ts";
import { isMachineHandle } from "../../lib/workload/identity.ts";
import type { PodView } from "../view/pod-view.ts";

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
  /** Sanitised; empty when it has none. */
  readonly handle: string;
  readonly sequenceNumber: bigint;
  readonly node: string;
  /** Of the pod that it was for; both empty for anything else. */
  readonly namespace: string;
  readonly pod: string;
  /** A virtual machine keeps its addresses from one pod to the next. */
  readonly machine: string | undefined;
  /** The same at two looks for the same allocation only. */
  readonly key: string;
}

/** What the judgement looks at. */
export interface Holders {
  readonly nodes: ReadonlySet<string>;
  readonly pods: readonly PodView[];
  readonly pod: (namespace: string, name: string) => PodView | undefined;
}

export function judgeAllocations(blocks: readonly PlacedBlock[], holders: Holders): readonly JudgedAllocation[] {
  const held = new Set(holders.pods.flatMap((pod) => (pod.isFinished ? [] : pod.addresses)));
  return blocks.flatMap((placed) => allocationsOf(placed).map((allocation) => judged(allocation, holders, held)));
}

function judged(allocation: Allocation, holders: Holders, held: ReadonlySet<string>): JudgedAllocation {
  const { placed, ordinal, attribute } = allocation;
  const owner = attribute.activeOwner ?? {};
  const handle = sanitised(attribute.handleId ?? "");
  const sequenceNumber = sequenceOf(placed.block, ordinal);
  const facts = {
    address: addressAt(placed.prefix, ordinal),
    block: placed.block.cidr,
    handle,
    sequenceNumber,
    node: owner.node ?? "",
    namespace: owner.namespace ?? "",
    pod: owner.pod ?? "",
    machine: owner["vmi-name"] ?? (isMachineHandle(handle) ? "" : undefined),
    key: `${textAt(placed, ordinal)} ${handle} ${sequenceNumber}`,
  };
  return { ...facts, verdict: verdictOf(facts, owner, holders, held) };
}

type Facts = Omit<JudgedAllocation, "verdict">;

function verdictOf(facts: Facts, owner: Readonly<Record<string, string>>, holders: Holders, held: ReadonlySet<string>): Verdict {
  const { handle, node, namespace, pod } = facts;
  // Without handle or node the owner cannot be told (I§5.4).
  if (handle === "" || handle.toLowerCase() === WINDOWS_RESERVED_HANDLE || node === "") return "unjudged";
  // Load balancers' addresses belong to Services.
  if (owner.type === "LoadBalancer") return "unjudged";
  if (held.has(keyOf(facts.address))) return "valid";
  const isNodeThere = holders.nodes.has(node);
  // A tunnel's address goes with its node.
  if (owner.type !== undefined) return isNodeThere ? "valid" : "departed";
  if (pod !== "" && namespace !== "" && mayStillUse(holders.pod(namespace, pod), facts)) return "valid";
  if (!isNodeThere) return "departed";
  const isJudgedByPod = pod !== "" && namespace !== "" && owner.note !== FROM_HOST_LOCAL;
  return isJudgedByPod ? "leaked" : "unjudged";
}

/** Whether the pod of that name may hold the address: it does, or it is on that node (or none yet) and has named no address so far. */
export function mayStillUse(pod: PodView | undefined, { address, node }: Pick<Facts, "address" | "node">): boolean {
  if (pod === undefined || pod.isFinished) return false;
  if (pod.addresses.includes(keyOf(address))) return true;
  return pod.addresses.length === 0 && (pod.node === "" || pod.node === node);
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
