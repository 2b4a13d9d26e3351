/** An endpoint uses an address that is not allocated: allocates it under the handle that the endpoint's DEL releases. */

import { claimBlock, NOT_OURS } from "../../ipam-plugin/allocator/claim-block.ts";
import { GrantPart, type GrantRequest } from "../../ipam-plugin/allocator/grant.ts";
import { AGAIN } from "../../ipam-plugin/allocator/operation.ts";
import { blockPrefixOf, usable } from "../../ipam-plugin/allocator/pools.ts";
import { type Address, contains, formatPrefix, parseAddress } from "../../lib/addresses/address.ts";
import type { Versioned } from "../../lib/datastore/datastore.ts";
import type { AllocationAttribute, Block } from "../../lib/datastore/resources.ts";
import { legacyHandleId, workloadHandleId } from "../../lib/workload/identity.ts";
import type { WorkloadEndpoint } from "../../lib/workload/workload-endpoint.ts";
import type { Subject } from "../problem.ts";
import { ofEndpoint } from "../rules/endpoint-rules.ts";
import { BlockIndex, placedBlock, placedBlocks, placedPools } from "../snapshot.ts";
import { GONE, MENDED, type Repair, type RepairOutcome, refused } from "./repair-outcome.ts";

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

/** The block of the address, owned by the endpoint's node. */
async function newBlockFor({ operation }: Repair, endpoint: WorkloadEndpoint, address: Address): Promise<Versioned<Block> | undefined> {
  const pool = usable(await operation.pools()).find(({ prefix }) => contains(prefix, address));
  if (pool === undefined) return undefined;
  const owner = { type: "host", name: endpoint.node } as const;
  const claimed = await claimBlock(operation, { owner, cidr: formatPrefix(blockPrefixOf(pool, address)), expectBlock: false });
  return claimed === NOT_OURS ? undefined : claimed;
}

/** Where profiles do not name the network (Kubernetes policy), the legacy handle is the one a DEL finds as well (I§1.7). */
function handleOf(endpoint: WorkloadEndpoint): string {
  const [network, ...others] = endpoint.profiles;
  const isNetwork = network !== undefined && others.length === 0 && !network.startsWith("kns.");
  if (isNetwork && endpoint.containerID !== "") return workloadHandleId(network, endpoint.containerID);
  return legacyHandleId({ ...endpoint, orchestrator: endpoint.pod === "" ? "cni" : "k8s", containerId: endpoint.containerID });
}

function attributeOf({ node, namespace, pod }: WorkloadEndpoint, handleId: string): AllocationAttribute {
  return { handleId, activeOwner: { node, ...(pod === "" ? {} : { pod, namespace }) } };
}
