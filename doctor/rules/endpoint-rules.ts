/** Endpoints against allocations: every address in use lies in a pool, and is allocated to its one user (invariants 2 and 3 of I§5.5). */
import { contains, formatAddress } from "../../lib/addresses/address.ts";
import type { Versioned } from "../../lib/datastore/datastore.ts";
import type { WorkloadEndpoint } from "../../lib/workload/workload-endpoint.ts";
import { count, enumerate, type Problem, problem } from "../problem.ts";
import {
  type Allocation,
  addressesOf,
  allocationAt,
  BlockIndex,
  hasFamily,
  keyOf,
  type PlacedBlock,
  type PlacedPool,
} from "../snapshot.ts";

type StoredEndpoint = Versioned<WorkloadEndpoint>;

export function endpointProblems(
  blocks: readonly PlacedBlock[],
  pools: readonly PlacedPool[],
  endpoints: readonly StoredEndpoint[],
): readonly Problem[] {
  const index = new BlockIndex(blocks);
  return [...endpoints.flatMap((endpoint) => ofEndpoint(endpoint, index, pools)), ...usedTwice(endpoints)];
}

/** What is wrong with the addresses that one endpoint uses. */
export function ofEndpoint({ value, revision }: StoredEndpoint, blocks: BlockIndex, pools: readonly PlacedPool[]): readonly Problem[] {
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

/** Whether an allocation is that of an endpoint: by its handle (I§2.5), or by the pod that its attributes name. */
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
      const user = users.get(keyOf(address));
      if (user === undefined) users.set(keyOf(address), { text: formatAddress(address), names: new Set([nameOf(value)]) });
      else user.names.add(nameOf(value));
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
