/**
 * Endpoints against allocations: every address in use lies in a pool, and is allocated to its one user (invariants 2 and 3 of I§5.5). An
 * address that is not allocated is allocated under the handle that the DEL of its endpoint releases.
 */

import { claimBlock, NOT_OURS } from "../ipam-plugin/allocator/affinity.ts";
import { GrantPart, type GrantRequest } from "../ipam-plugin/allocator/grant.ts";
import { blockPrefixOf, usable } from "../ipam-plugin/allocator/pools.ts";
import { AGAIN } from "../ipam-plugin/allocator/types.ts";
import { type Address, contains, formatAddress, formatPrefix, parseAddress } from "../lib/addresses/address.ts";
import type { Versioned } from "../lib/datastore/datastore.ts";
import type { AllocationAttribute, Block } from "../lib/datastore/resources.ts";
import type { WorkloadEndpoint } from "../lib/workload/endpoint.ts";
import { legacyHandleId, workloadHandleId } from "../lib/workload/identity.ts";
import {
  count,
  enumerate,
  GONE,
  MENDED,
  type Problem,
  problem,
  type Repair,
  type RepairOutcome,
  refused,
  type Subject,
} from "./problem.ts";
import {
  type Allocation,
  addressesOf,
  allocationAt,
  BlockIndex,
  hasFamily,
  keyOf,
  type PlacedBlock,
  type PlacedPool,
  placedBlock,
  placedBlocks,
  placedPools,
} from "./snapshot.ts";

type StoredEndpoint = Versioned<WorkloadEndpoint>;

export function endpointProblems(
  blocks: readonly PlacedBlock[],
  pools: readonly PlacedPool[],
  endpoints: readonly StoredEndpoint[],
): readonly Problem[] {
  const index = new BlockIndex(blocks);
  return [...endpoints.flatMap((endpoint) => ofEndpoint(endpoint, index, pools)), ...usedTwice(endpoints)];
}

/** Finds what is wrong with the addresses that one endpoint uses. */
function ofEndpoint({ value, revision }: StoredEndpoint, blocks: BlockIndex, pools: readonly PlacedPool[]): readonly Problem[] {
  return addressesOf(value).flatMap((address) => {
    const text = formatAddress(address);
    const found = (
      kind: "address-not-allocated" | "address-outside-pools" | "address-of-another" | "address-without-handle",
      message: string,
    ) => [
      problem(kind, {
        object: `address ${text} of endpoint ${nameOf(value)}`,
        message,
        addresses: [text],
        evidence: `${message} ${revision}`,
        subject: { type: "endpoint", key: { namespace: value.namespace, name: value.name }, address: text },
      }),
    ];
    const holding = blocks.holding(address);
    const taken = holding.flatMap((placed) => allocationAt(placed, Number(address.value - placed.prefix.address.value)) ?? []);
    if (taken.some((allocation) => isHeldBy(allocation, value))) return [];
    const [first] = taken;
    if (first?.attribute.handleId !== undefined)
      return found("address-of-another", `is allocated to handle ${first.attribute.handleId}, another workload`);
    if (first !== undefined) return found("address-without-handle", "is allocated without a handle: no DEL would find it");
    if (pools.some(({ prefix }) => contains(prefix, address)) || holding.length > 0) {
      return found("address-not-allocated", "is not allocated: it could be given to another workload");
    }
    // Where no pool is of the family, its addresses come from another IPAM plugin.
    return hasFamily(pools, address.family) ? found("address-outside-pools", "lies in no pool") : [];
  });
}

/** Tells whether an allocation is that of an endpoint: by its handle (I§2.5), or by the pod that its attributes name. */
function isHeldBy({ attribute }: Allocation, endpoint: WorkloadEndpoint): boolean {
  const { handleId, activeOwner, alternateOwner } = attribute;
  if (handleId === undefined) return false;
  const { containerID, namespace, pod } = endpoint;
  if (containerID === "" && pod === "") return true;
  if (containerID !== "" && (handleId === containerID || handleId.endsWith(`.${containerID}`))) return true;
  if (pod === "") return false;
  return (
    handleId === `${namespace}.${pod}` || [activeOwner, alternateOwner].some((owner) => owner?.pod === pod && owner.namespace === namespace)
  );
}

function usedTwice(endpoints: readonly StoredEndpoint[]): readonly Problem[] {
  const users = new Map<string, { readonly text: string; readonly names: Set<string> }>();
  for (const { value } of endpoints) {
    for (const address of addressesOf(value)) {
      const user = users.getOrInsertComputed(keyOf(address), () => ({ text: formatAddress(address), names: new Set() }));
      user.names.add(nameOf(value));
    }
  }
  return [...users.values()].flatMap(({ text, names }) =>
    names.size < 2
      ? []
      : problem("address-used-twice", {
          object: `address ${text}`,
          message: `is used by ${count(names.size, "endpoint")}: ${enumerate([...names])}`,
          addresses: [text],
          subject: { type: "address", address: text },
        }),
  );
}

function nameOf({ namespace, name }: WorkloadEndpoint): string {
  return `${namespace}/${name}`;
}

export async function allocateToEndpoint(
  work: Repair,
  subject: Extract<Subject, { type: "endpoint" }>,
): Promise<RepairOutcome | typeof AGAIN> {
  const { operation, problem } = work;
  const endpoint = await operation.datastore.endpoints.get(subject.key);
  const address = parseAddress(subject.address);
  if (endpoint === undefined || address === undefined) return GONE;
  const blocks = new BlockIndex(placedBlocks(await operation.blocks()));
  if (!ofEndpoint(endpoint, blocks, placedPools(await operation.pools())).some(({ id }) => id === problem.id)) return GONE;
  const { value } = endpoint;
  if (value.containerID === "" && value.pod === "") return refused("the endpoint names neither container nor pod: no DEL would release it");
  // A tenant would reserve any free address of the node's blocks that way.
  if (value.isClaimed)
    return refused("only annotations of the pod name the address, not its status: repair again when kubelet has published it");

  const [holding] = blocks.holding(address);
  const stored = holding === undefined ? await newBlockFor(work, value, address) : { value: holding.block, revision: holding.revision };
  if (stored === undefined) return refused("its block belongs to another node");
  const handle = handleOf(value);
  const grant: GrantRequest = { handle, attribute: attributeOf(value, handle), limit: 0, known: undefined, mustBeNew: false };
  const ordinal = Number(address.value - (placedBlock(stored)?.prefix.address.value ?? address.value));
  // Also out of its cooldown: who uses an address keeps it.
  const part = new GrantPart(operation, { cidr: stored.value.cidr, count: 1, from: () => [ordinal] }, grant);
  return (await operation.writer.write(part, stored)) === AGAIN ? AGAIN : MENDED;
}

/** Makes the block of the address, owned by the endpoint's node. */
async function newBlockFor({ operation }: Repair, endpoint: WorkloadEndpoint, address: Address): Promise<Versioned<Block> | undefined> {
  const pool = usable(await operation.pools()).find(({ prefix }) => contains(prefix, address));
  if (pool === undefined) return undefined;
  const owner = { type: "host", name: endpoint.node } as const;
  const claimed = await claimBlock(operation, { owner, cidr: formatPrefix(blockPrefixOf(pool, address)), expectBlock: false });
  return claimed === NOT_OURS ? undefined : claimed;
}

/** Chooses the handle. Where profiles do not name the network (Kubernetes policy), a DEL finds the legacy one as well (I§1.7). */
function handleOf(endpoint: WorkloadEndpoint): string {
  const [network, ...others] = endpoint.profiles;
  const isNetwork = network !== undefined && others.length === 0 && !network.startsWith("kns.");
  if (isNetwork && endpoint.containerID !== "") return workloadHandleId(network, endpoint.containerID);
  return legacyHandleId({ ...endpoint, orchestrator: endpoint.pod === "" ? "cni" : "k8s", containerId: endpoint.containerID });
}

function attributeOf({ node, namespace, pod }: WorkloadEndpoint, handleId: string): AllocationAttribute {
  return { handleId, activeOwner: { node, ...(pod === "" ? {} : { pod, namespace }) } };
}
