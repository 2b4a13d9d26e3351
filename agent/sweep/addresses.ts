/**
 * Releases addresses that are allocated and not used (A§8.1), by the store's own release: when two looks, at least a minute apart, find
 * nothing that stands for them, and neither does a third one under the attachment's lock. A look that fails proves nothing.
 */

import { type Allocation, addressesOf, allocationsOf, keyOf, placedBlocks, textAt } from "../../doctor/snapshot.ts";
import { belongsToWorkload } from "../../doctor/unused.ts";
import { sequenceOf } from "../../ipam-plugin/allocator/block.ts";
import type { IpamHost } from "../../ipam-plugin/host.ts";
import type { HostScope } from "../../ipam-plugin/host-scope/host-scope.ts";
import { withNodeLock } from "../../ipam-plugin/node-lock.ts";
import { parseGoTimestamp } from "../../ipam-plugin/workload.ts";
import { type Address, addressAt, formatAddress } from "../../lib/addresses/address.ts";
import type { NetworkConfig } from "../../lib/config/decode.ts";
import type { Logger } from "../../lib/log/logger.ts";
import { Observations } from "../../lib/resident/observations.ts";
import type { Clock } from "../../lib/system/waiting.ts";
import { once } from "../../lib/system/waiting.ts";
import type { EndpointKey, WorkloadEndpoint } from "../../lib/workload/endpoint.ts";
import { workloadHandleId } from "../../lib/workload/identity.ts";
import { LEAST_BETWEEN_MS } from "./sweep.ts";
import { type Holder, isHeldByPod, Witnesses, type WitnessParts } from "./witnesses.ts";

/** Younger ones may belong to an ADD that is under way (A§8.1). */
const YOUNG_MS = 600_000;

export interface Allocated extends Holder {
  /** The same at two looks for the same allocation only. */
  readonly key: string;
  /** Milliseconds since 1970; `undefined` where the store does not say. */
  readonly sinceMs: number | undefined;
  /** Releases this allocation and nothing that was allocated since. @returns whether it was still there @throws Error */
  release(): Promise<boolean>;
}

export interface SweptStore {
  /** Of the addresses that it holds: in logs, and as the kind of the metric. */
  readonly kind: "grant-without-endpoint" | "allocation-without-endpoint";
  /** Lists what containers of this node hold. @throws Error */
  list(): Promise<readonly Allocated[]>;
}

export interface AddressSweepOptions {
  readonly clock: Clock;
  /** The restore has ended, so that every endpoint is known. */
  readonly isRestored: () => boolean;
  readonly store: SweptStore;
  readonly witnesses: WitnessParts;
  /** @returns `undefined` while a plugin works on the container */
  readonly tryLock: (holder: Holder) => Disposable | undefined;
  /** Called for what was released. */
  readonly onReleased: (kind: SweptStore["kind"], what: string, count: number) => void;
  /** Called at the end of each look with the pods whose annotations were not read to their end: what was given to them is kept. */
  readonly onUnread: (kind: SweptStore["kind"], pods: readonly string[]) => void;
}

export class AddressSweep {
  readonly #options: AddressSweepOptions;
  readonly #seen: Observations;
  /** Releases of the present look that failed. */
  #failures: unknown[] = [];

  constructor(options: AddressSweepOptions) {
    this.#options = options;
    this.#seen = new Observations(options.clock);
  }

  /** Looks at the whole store once. @throws Error when a witness cannot be read, or, at the end, the first release that failed */
  async run(signal: AbortSignal): Promise<void> {
    const { isRestored, store, witnesses, onUnread } = this.#options;
    if (!isRestored() || witnesses.pods?.isComplete === false) return this.#seen.forget();
    this.#failures = [];
    try {
      // Lists the allocations first: the witnesses do not judge what is made after them.
      const allocated = await store.list();
      const seen = new Witnesses(witnesses);
      for (const one of allocated) {
        // Nothing of a look that was cut short may remain for the next one.
        if (signal.aborted) return this.#seen.forget();
        if (this.#isYoung(one) || seen.mayUse(one)) continue;
        const sinceMs = one.sinceMs === undefined ? YOUNG_MS : LEAST_BETWEEN_MS;
        if (this.#seen.see(one.key, sinceMs)) await this.#release(one);
      }
      this.#seen.endLook();
      onUnread(store.kind, seen.unread);
    } catch (error) {
      this.#seen.forget();
      throw error;
    }
    // The look was whole all the same.
    if (this.#failures.length > 0) throw this.#failures[0];
  }

  #isYoung({ sinceMs }: Allocated): boolean {
    return sinceMs !== undefined && this.#options.clock.date().getTime() - sinceMs < YOUNG_MS;
  }

  /** @returns whether the release succeeded, and there was something to release */
  async #attempt(release: () => Promise<boolean>): Promise<boolean> {
    try {
      return await release();
    } catch (error) {
      this.#failures.push(error);
      return false;
    }
  }

  /** Looks at everything again under the lock, since a plugin may have come between, and then releases. */
  async #release(allocated: Allocated): Promise<void> {
    const { store, witnesses, tryLock, onReleased } = this.#options;
    using lock = tryLock(allocated);
    if (lock === undefined || (await isHeldByPod(allocated, witnesses.pods))) return;
    if (new Witnesses(witnesses).mayUse(allocated) || !(await this.#attempt(() => allocated.release()))) return;
    const { addresses, network, containerId, ifname } = allocated;
    const whose = `network ${network}, container ${containerId}${ifname === undefined ? "" : `, interface ${ifname}`}`;
    const what = `${addresses.map(formatAddress).join(", ")} of ${whose}: no endpoint, no link, no record and no pod has it`;
    onReleased(store.kind, what, addresses.length);
  }
}

/** A network whose calls this agent has served, and its store. */
interface SweptNetwork {
  readonly config: NetworkConfig;
  readonly nodeName: string;
  readonly ipam: () => Promise<IpamHost>;
}

/** For one release, with its wait for the node's lock. */
const LIMIT_MS = 60_000;

type Log = Pick<Logger, "error" | "info" | "writeNow">;

/**
 * Lists addresses of this node's blocks in stores that no controller watches: local ones and etcd. On Kubernetes the controller releases
 * what leaked, and the agent does not. Only networks that this agent serves are looked at: which program attached a container of another
 * network, and which traces it leaves, is unknown here.
 * @param networks asked at each look
 */
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
  readonly ipam: IpamHost;
  /** Of one look: an etcd cluster has the endpoints of all of its nodes in one list, which is not read for every address. */
  readonly naming: () => Promise<ReadonlyMap<string, readonly EndpointKey[]>>;
  readonly containerId: string;
  readonly address: Address;
  readonly log: Log;
}

/** Lists the records that name an address, by `keyOf` the address. @throws DatastoreError */
async function recordsByAddress({ endpoints }: Pick<IpamHost["datastore"], "endpoints">) {
  const naming = new Map<string, EndpointKey[]>();
  for (const { value } of await endpoints.list()) {
    for (const address of addressesOf(value)) {
      naming.getOrInsert(keyOf(address), []).push({ namespace: value.namespace, name: value.name });
    }
  }
  return naming;
}

/**
 * Removes the record first, as a DEL does, since no record may name a free address (design, invariant 3). A record that came after the
 * list belongs to a container that was given the address since, and then the allocation is a different one.
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
    // If another container's record names the address, a person must decide whose it is.
    if (current.some((value) => value.containerID !== containerId)) return false;
    for (const { namespace, name } of current) await records.clear({ namespace, name }, containerId);
    const { released } = await ipam.allocator.releaseByHandle(handle, { sequenceNumbers: new Set([sequenceNumber]) }, { signal });
    return released.length > 0;
  });
}

function names(endpoint: WorkloadEndpoint, address: Address): boolean {
  return addressesOf(endpoint).some((one) => keyOf(one) === keyOf(address));
}

/** Reads the container id from a handle of this network; one with a "." cannot be told from a longer network name (I§2.5). */
function containerOf(handle: string, network: string): string | undefined {
  const prefix = workloadHandleId(network, "");
  const container = handle.startsWith(prefix) ? handle.slice(prefix.length) : "";
  return container === "" || container.includes(".") ? undefined : container;
}

/** Leaves out what is another node's, or what a second owner may take over. */
function isOfContainer(allocation: Allocation, nodeName: string): boolean {
  const { activeOwner, alternateOwner = {} } = allocation.attribute;
  return activeOwner?.node === nodeName && Object.keys(alternateOwner).length === 0 && belongsToWorkload(allocation);
}

/**
 * Lists the grant files of host scope (A§4.4). Leaves out names that clients of the API gave, and the node's own.
 * @param hostScope asked at each look
 */
export function sweptGrants(hostScope: () => Pick<HostScope, "holdings" | "files">): SweptStore {
  const list = async () =>
    (await hostScope().holdings()).flatMap(({ address, grant }): Allocated[] => {
      // A grant with a time limit ends by itself.
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
