/** The embedded datastore as a replay store: objects are put and read through the datastore port, never by SQL. */
import { createHash } from "node:crypto";
import type { AffinityKey, Collection } from "../../../lib/datastore/datastore.ts";
import { type LocalDatastore, openLocalDatastore } from "../../../lib/datastore/local/local-datastore.ts";
import type { AllocationAttribute, Block, BlockAffinity, BlockOwner, IPPool, OwnedObject } from "../../../lib/datastore/resources.ts";
import type { NamespacedName } from "../../../lib/kubernetes/objects.ts";
import type { WorkloadEndpoint } from "../../../lib/workload/endpoint.ts";
import { isList, isRecord, type Json, type JsonRecord, listOf, recordOf, textOf, textsOf, without } from "../compare/json.ts";
import type { StoredObject } from "../recording/stored-object.ts";
import { compactBlock, endpointEntry, isMarkedDeleted, type StoredState, withoutWire } from "../recording/stored-state.ts";
import { rewriteForLocal } from "./local-netconf.ts";
import type { ReplayStore, StoreKind } from "./replay-store.ts";

export const LOCAL_STORE: StoreKind = {
  open: async (sandbox) => new LocalReplayStore(sandbox.datastore.outside),
  comparable: comparableLocally,
};

class LocalReplayStore implements ReplayStore {
  readonly places: ReadonlyMap<string, string> = new Map();
  readonly volatile: ReadonlyMap<string, string> = new Map();
  readonly #datastore: LocalDatastore;

  /** @param path the file as this process sees it */
  constructor(path: string) {
    this.#datastore = openLocalDatastore(path);
  }

  rewriteNetconf(stdin: JsonRecord | string): string {
    return rewriteForLocal(stdin);
  }

  async seed(objects: readonly StoredObject[]): Promise<void> {
    for (const object of objects) await this.#put(object);
  }

  async applyChange(put: readonly StoredObject[], remove: readonly { readonly kind: string; readonly name: string }[]): Promise<void> {
    await this.seed(put);
    for (const { kind, name } of remove) {
      const owned = this.#ownedCollection(kind);
      if (owned !== undefined) await removeFrom(owned, namespacedName(name), name);
      else if (kind === "IPPool") await removeFrom(this.#datastore.pools, name, name);
      else if (kind === "Node") await removeFrom(this.#datastore.nodes, name, name);
      else throw new Error(`the local store cannot remove ${kind} ${name}`);
    }
  }

  async readObjects(): Promise<StoredState> {
    const { blocks, affinities, handles, endpoints } = this.#datastore;
    return {
      blocks: Object.fromEntries((await blocks.list()).map(({ value }) => [value.cidr, compactBlock(specOfBlock(value))])),
      affinities: Object.fromEntries((await affinities.listAll()).map(({ value }) => affinityEntry(value))),
      handles: Object.fromEntries((await handles.list()).map(({ value }) => [value.id, { ...value.blocks }])),
      endpoints: Object.fromEntries((await endpoints.list()).map(({ value }) => endpointEntry(specOfEndpoint(value)))),
      pods: {},
    };
  }

  // It finds the file of each call's own configuration.
  readonly agentFlags = [];

  async requests(): Promise<undefined> {
    return undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#datastore[Symbol.asyncDispose]();
  }

  #ownedCollection(kind: string): Collection<NamespacedName, OwnedObject> | undefined {
    const { pods, instances, machines } = this.#datastore.virtualMachines;
    if (kind === "Pod") return pods;
    if (kind === "VirtualMachineInstance") return instances;
    return kind === "VirtualMachine" ? machines : undefined;
  }

  async #put(object: StoredObject): Promise<void> {
    const { kind, name, spec, labels } = object;
    const store = this.#datastore;
    if (isMarkedDeleted(spec)) return;
    const owned = this.#ownedCollection(kind);
    // Pods of the main suite have no namespace in their names, and nothing of theirs is read here.
    if (owned !== undefined && name.includes("/")) return put(owned, namespacedName(name), ownedOf(object));
    if (kind === "IPPool") await put(store.pools, name, poolOf(object));
    else if (kind === "IPAMBlock") await put(store.blocks, textOf(spec.cidr), blockOf(spec));
    else if (kind === "IPAMHandle")
      await put(store.handles, textOf(spec.handleID), { id: textOf(spec.handleID), blocks: countsOf(spec.block) });
    else if (kind === "BlockAffinity") {
      const affinity = affinityOf(spec);
      await put<AffinityKey, BlockAffinity>(store.affinities, { owner: affinity.owner, cidr: affinity.cidr }, affinity);
    } else if (kind === "IPAMConfig") {
      await put(store.ipamConfiguration, "default", {
        strictAffinity: spec.strictAffinity === true,
        autoAllocateBlocks: spec.autoAllocateBlocks === true,
        maxBlocksPerHost: Number(spec.maxBlocksPerHost ?? 0),
        kubeVirtVMAddressPersistence: spec.kubeVirtVMAddressPersistence === "Disabled" ? "Disabled" : "Enabled",
        ipCooldownSeconds: Number(spec.ipCooldownSeconds ?? 0),
      });
    } else if (kind === "IPReservation")
      await put(store.reservations, name, { name, reservedCIDRs: listOf(spec.reservedCIDRs).map(textOf) });
    else if (kind === "Node") await put(store.nodes, name, { name, labels });
    else if (kind === "Namespace") await put(store.namespaces, name, { name, labels });
    else if (kind === "ClusterInformation") {
      const ready = spec.datastoreReady;
      await put(store.clusterInformation, "default", { datastoreReady: typeof ready === "boolean" ? ready : undefined });
    }
  }
}

/** "namespace/name" */
function namespacedName(name: string): NamespacedName {
  const slash = name.indexOf("/");
  return { namespace: name.slice(0, slash), name: name.slice(slash + 1) };
}

function ownedOf({ name, labels, deleting, uid = "", owners = [] }: StoredObject): OwnedObject {
  return { ...namespacedName(name), uid, labels, owners, isDeleting: deleting };
}

/**
 * The part of a recorded state that the local store can hold: no object has the mark of a soft delete, and the empty state of old
 * affinities is stored as what it means (I§2.3, §2.10).
 */
function comparableLocally(recorded: StoredState): StoredState {
  const kept = (objects: JsonRecord) =>
    Object.fromEntries(Object.entries(objects).filter(([, object]) => recordOf(object).deleted !== true));
  const affinities = Object.entries(kept(recorded.affinities)).map(([key, value]) => {
    const affinity = recordOf(value);
    return [key, { ...affinity, state: affinity.state === "" ? "confirmed" : (affinity.state ?? "") }] as const;
  });
  return withoutWire({
    blocks: kept(recorded.blocks),
    handles: kept(recorded.handles),
    affinities: Object.fromEntries(affinities),
    endpoints: Object.fromEntries(Object.entries(recorded.endpoints).map(([owner, entry]) => [owner, without(recordOf(entry), "wire")])),
    pods: {},
  });
}

async function removeFrom<K, T>(collection: Collection<K, T>, key: K, name: string): Promise<void> {
  const there = await collection.get(key);
  if (there === undefined) throw new Error(`the local store has no ${name} to remove`);
  await collection.delete(key, there.revision);
}

async function put<K, T>(collection: Collection<K, T>, key: K, value: T): Promise<void> {
  const there = await collection.get(key);
  if (there === undefined) await collection.create(key, value);
  else await collection.update(key, value, there.revision);
}

/** Defaults on read as in I§2.7. */
function poolOf({ name, spec, deleting, status }: StoredObject): IPPool {
  const cidr = textOf(spec.cidr);
  const uses = listOf(spec.allowedUses).map(textOf);
  const allocatable = listOf(status.conditions)
    .map(recordOf)
    .find((condition) => condition.type === "Allocatable");
  return {
    name,
    cidr,
    blockSize: typeof spec.blockSize === "number" ? spec.blockSize : cidr.includes(":") ? 122 : 26,
    disabled: spec.disabled === true,
    nodeSelector: typeof spec.nodeSelector === "string" ? spec.nodeSelector : "all()",
    namespaceSelector: textOf(spec.namespaceSelector),
    allowedUses: uses.length > 0 ? uses : ["Workload", "Tunnel"],
    assignmentMode: spec.assignmentMode === "Manual" ? "Manual" : "Automatic",
    natOutgoing: spec.natOutgoing === true,
    deleting,
    ...(allocatable === undefined ? {} : { allocatable: allocatable.status !== "False" }),
  };
}

function blockOf(spec: JsonRecord): Block {
  const affinity = textOf(spec.affinity);
  const claimed = spec.affinityClaimTime ?? spec.affinity_claim_time;
  return {
    cidr: textOf(spec.cidr),
    ...(affinity === "" ? {} : { affinity: ownerOf(affinity) }),
    ...(typeof claimed === "string" ? { affinityClaimTime: claimed } : {}),
    allocations: listOf(spec.allocations).map((index) => (index === null ? null : Number(index))),
    unallocated: listOf(spec.unallocated).map(Number),
    attributes: listOf(spec.attributes).map((attribute) => attributeOf(recordOf(attribute))),
    sequenceNumber: BigInt(String(spec.sequenceNumber ?? 0)),
    sequenceNumberForAllocation: Object.fromEntries(
      Object.entries(recordOf(spec.sequenceNumberForAllocation)).map(([ordinal, number]) => [ordinal, BigInt(String(number))]),
    ),
  };
}

function attributeOf(attribute: JsonRecord): AllocationAttribute {
  return {
    ...(typeof attribute.handle_id === "string" ? { handleId: attribute.handle_id } : {}),
    ...(isRecord(attribute.secondary) ? { activeOwner: textsOf(attribute.secondary) } : {}),
    ...(isRecord(attribute.alternateOwnerAttrs) ? { alternateOwner: textsOf(attribute.alternateOwnerAttrs) } : {}),
    ...(typeof attribute.releasedAt === "string" ? { releasedAt: attribute.releasedAt } : {}),
  };
}

function affinityOf(spec: JsonRecord): BlockAffinity {
  const state = textOf(spec.state);
  return {
    owner: { type: spec.type === "virtual" ? "virtual" : "host", name: textOf(spec.node) },
    cidr: textOf(spec.cidr),
    state: state === "pending" || state === "pendingDeletion" ? state : "confirmed",
    labelled: true,
  };
}

function ownerOf(affinity: string): BlockOwner {
  const colon = affinity.indexOf(":");
  return { type: affinity.slice(0, colon) === "virtual" ? "virtual" : "host", name: affinity.slice(colon + 1) };
}

function countsOf(block: Json | undefined): Record<string, number> {
  return Object.fromEntries(Object.entries(recordOf(block)).map(([cidr, count]) => [cidr, Number(count)]));
}

/** The wire form of a block (I§2.4). */
function specOfBlock(block: Block): JsonRecord {
  return {
    cidr: block.cidr,
    ...(block.affinity === undefined ? {} : { affinity: `${block.affinity.type}:${block.affinity.name}` }),
    ...(block.affinityClaimTime === undefined ? {} : { affinityClaimTime: block.affinityClaimTime }),
    allocations: [...block.allocations],
    unallocated: [...block.unallocated],
    attributes: block.attributes.map((attribute) => ({
      ...(attribute.handleId === undefined ? {} : { handle_id: attribute.handleId }),
      ...(attribute.activeOwner === undefined ? {} : { secondary: { ...attribute.activeOwner } }),
      ...(attribute.alternateOwner === undefined ? {} : { alternateOwnerAttrs: { ...attribute.alternateOwner } }),
      ...(attribute.releasedAt === undefined ? {} : { releasedAt: attribute.releasedAt }),
    })),
    sequenceNumber: numberOrText(block.sequenceNumber),
    sequenceNumberForAllocation: Object.fromEntries(
      Object.entries(block.sequenceNumberForAllocation).map(([ordinal, number]) => [ordinal, numberOrText(number)]),
    ),
  };
}

function numberOrText(number: bigint): Json {
  return number <= BigInt(Number.MAX_SAFE_INTEGER) && number >= BigInt(Number.MIN_SAFE_INTEGER) ? Number(number) : String(number);
}

function affinityEntry({ owner, cidr, state }: BlockAffinity): [string, Json] {
  const labels = {
    "projectcalico.org/affinity-type": owner.type,
    "projectcalico.org/hostname-hash": hostnameHash(owner.name),
    "projectcalico.org/ip-version": cidr.includes(":") ? "6" : "4",
  };
  return [`${owner.name} ${cidr}`, { state, ...(owner.type === "virtual" ? { type: "virtual" } : {}), labels }];
}

/** Unpadded base32 (RFC 4648) of SHA3-256 (I§2.3). */
function hostnameHash(host: string): string {
  const bits = [...createHash("sha3-256").update(host).digest()].map((byte) => byte.toString(2).padStart(8, "0")).join("");
  return (bits.match(/.{1,5}/g) ?? [])
    .map((group) => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[Number.parseInt(group.padEnd(5, "0"), 2)])
    .join("");
}

function specOfEndpoint(endpoint: WorkloadEndpoint): JsonRecord {
  const { pod, containerID, ipNetworks } = endpoint;
  return { endpoint: endpoint.endpoint, pod, containerID, ipNetworks: isList(ipNetworks) ? [...ipNetworks] : [] };
}
