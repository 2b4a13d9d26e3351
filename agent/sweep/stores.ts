/**
 * Addresses of this node's blocks as the sweep sees them, in stores that no controller watches: local ones and etcd. On Kubernetes the
 * controller releases what leaked, and the agent does not. Only networks that this agent serves are looked at: which program attached a
 * container of another network, and which traces it leaves, is unknown here.
 */
import { type Allocation, addressesOf, allocationsOf, keyOf, placedBlocks, textAt } from "../../doctor/snapshot.ts";
import { belongsToWorkload } from "../../doctor/unused.ts";
import { sequenceOf } from "../../ipam-plugin/allocator/block.ts";
import type { HostScope } from "../../ipam-plugin/host-scope/host-scope.ts";
import type { IpamNode } from "../../ipam-plugin/node.ts";
import { withNodeLock } from "../../ipam-plugin/node-lock.ts";
import { parseGoTimestamp } from "../../ipam-plugin/workload.ts";
import { type Address, addressAt, formatAddress } from "../../lib/addresses/address.ts";
import type { NetworkConfig } from "../../lib/config/decode.ts";
import type { Logger } from "../../lib/log/logger.ts";
import { once } from "../../lib/system/waiting.ts";
import type { EndpointKey, WorkloadEndpoint } from "../../lib/workload/endpoint.ts";
import { workloadHandleId } from "../../lib/workload/identity.ts";
import type { Allocated, SweptStore } from "./address-sweep.ts";

/** A network whose calls this agent has served, and its store. */
interface SweptNetwork {
  readonly config: NetworkConfig;
  readonly nodeName: string;
  readonly ipam: () => Promise<IpamNode>;
}

/** For one release, with its wait for the node's lock. */
const LIMIT_MS = 60_000;

type Log = Pick<Logger, "error" | "info" | "writeNow">;

/** @param networks asked at each look */
export function sweptBlocks(networks: () => readonly SweptNetwork[], log: Log): SweptStore {
  return {
    kind: "allocation-without-endpoint",
    async list() {
      const found: Allocated[] = [];
      for (const network of networks()) found.push(...(await allocatedIn(network, log)));
      return found;
    },
  };
}

async function allocatedIn({ config, nodeName, ipam: open }: SweptNetwork, log: Log): Promise<readonly Allocated[]> {
  const ipam = await open();
  const { datastore } = ipam;
  if (datastore.traits.endpointsAre === "annotations") return [];
  const owner = { type: "host", name: nodeName } as const;
  const cidrs = [...(await datastore.affinities.listByOwner(owner, 4)), ...(await datastore.affinities.listByOwner(owner, 6))];
  const blocks = await Promise.all(cidrs.map(({ value: { cidr } }) => datastore.blocks.get(cidr)));
  const naming = once(() => recordsByAddress(datastore));
  const allocations = placedBlocks(blocks.flatMap((block) => block ?? [])).flatMap(allocationsOf);
  return allocations.flatMap((allocation): readonly Allocated[] => {
    const { placed, ordinal, attribute } = allocation;
    const { handleId: handle = "", activeOwner = {} } = attribute;
    const containerId = containerOf(handle, config.name);
    if (containerId === undefined || !isOfContainer(allocation, nodeName)) return [];
    const address = addressAt(placed.prefix, ordinal);
    const { namespace = "", pod = "", timestamp } = activeOwner;
    const sequenceNumber = sequenceOf(placed.block, ordinal);
    return [
      {
        key: `${textAt(placed, ordinal)} ${handle} ${sequenceNumber}`,
        sinceMs: parseGoTimestamp(timestamp),
        network: config.name,
        containerId,
        addresses: [address],
        ...(pod === "" ? {} : { pod: `${namespace}/${pod}` }),
        release: () => release({ config, ipam, naming, containerId, address, log }, handle, sequenceNumber),
      },
    ];
  });
}

interface Release {
  readonly config: NetworkConfig;
  readonly ipam: IpamNode;
  /** Of one look: an etcd cluster has the endpoints of all of its nodes in one list, which is not read for every address. */
  readonly naming: () => Promise<ReadonlyMap<string, readonly EndpointKey[]>>;
  readonly containerId: string;
  readonly address: Address;
  readonly log: Log;
}

/** The records that name an address, by `keyOf` the address. @throws DatastoreError */
async function recordsByAddress({ endpoints }: Pick<IpamNode["datastore"], "endpoints">) {
  const naming = new Map<string, EndpointKey[]>();
  for (const { value } of await endpoints.list()) {
    for (const address of addressesOf(value)) {
      const known = naming.get(keyOf(address)) ?? [];
      naming.set(keyOf(address), [...known, { namespace: value.namespace, name: value.name }]);
    }
  }
  return naming;
}

/**
 * As a DEL does: the record first, since none may name an address that is free (design, invariant 3). A record that came after the list
 * belongs to a container that was given the address since, and then the allocation is another one.
 */
async function release(
  { config, ipam, naming, containerId, address, log }: Release,
  handle: string,
  sequenceNumber: bigint,
): Promise<boolean> {
  return withNodeLock({ config, log, signal: AbortSignal.timeout(LIMIT_MS) }, ipam, async (signal) => {
    const { endpoints, records } = ipam.datastore;
    const listed = (await naming()).get(keyOf(address)) ?? [];
    // They may have changed since they were listed.
    const read = await Promise.all(listed.map((key) => endpoints.get(key)));
    const current = read.flatMap((found) => (found !== undefined && names(found.value, address) ? found.value : []));
    // Whose an address is that another container's record names, is for a person to say.
    if (current.some((value) => value.containerID !== containerId)) return false;
    for (const { namespace, name } of current) await records.clear({ namespace, name }, containerId);
    const { released } = await ipam.allocator.releaseByHandle(handle, { sequenceNumber }, { signal });
    return released.length > 0;
  });
}

function names(endpoint: WorkloadEndpoint, address: Address): boolean {
  return addressesOf(endpoint).some((one) => keyOf(one) === keyOf(address));
}

/** Of a handle of this network; a container id with a "." cannot be told from a longer network name (I§2.5). */
function containerOf(handle: string, network: string): string | undefined {
  const prefix = workloadHandleId(network, "");
  const container = handle.startsWith(prefix) ? handle.slice(prefix.length) : "";
  return container === "" || container.includes(".") ? undefined : container;
}

/** Not another node's, nor one that a second owner may take over. */
function isOfContainer(allocation: Allocation, nodeName: string): boolean {
  const { activeOwner, alternateOwner = {} } = allocation.attribute;
  return activeOwner?.node === nodeName && Object.keys(alternateOwner).length === 0 && belongsToWorkload(allocation);
}

/**
 * The grant files of host scope as the sweep sees them (A§4.4). Names that clients of the API gave, and the node's own, are theirs.
 * @param hostScope asked at each look
 */
export function sweptGrants(hostScope: () => Pick<HostScope, "holdings" | "files">): SweptStore {
  const list = async () =>
    (await hostScope().holdings()).flatMap(({ address, grant }): Allocated[] => {
      // One with a time limit ends by itself.
      if (grant === undefined || grant.owner.kind === "name" || grant.expiresAtMs !== undefined) return [];
      const { network, containerId, ifname, pod } = grant.owner;
      return [
        {
          key: `${formatAddress(address)} ${grant.token}`,
          sinceMs: grant.grantedAtMs,
          network,
          containerId,
          ifname,
          addresses: [address],
          pod,
          release: async () => (await hostScope().files.release([address], ({ token }) => token === grant.token)).length > 0,
        },
      ];
    });
  return { kind: "grant-without-endpoint", list };
}
