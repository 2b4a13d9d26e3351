/**
 * The datastore port in memory, with every call in a test's hand: a gate says of each whether it goes through, fails, conflicts,
 * loses its answer, or kills its client. With a gate that parks calls (scheduler.ts) every call is a point where others may run.
 */
import type {
  AffinityKey,
  BlockAffinities,
  Blocks,
  Collection,
  Datastore,
  Handles,
  ListOptions,
  Pools,
  Reservations,
  Versioned,
  WorkloadEndpoints,
} from "../../lib/datastore/datastore.ts";
import { LOCAL_TRAITS, NO_PROFILES, type Traits } from "../../lib/datastore/datastore.ts";
import { ObjectRecords } from "../../lib/datastore/endpoint-records.ts";
import { DatastoreError } from "../../lib/datastore/errors.ts";
import {
  type Block,
  type BlockAffinity,
  type BlockOwner,
  type ClusterInformation,
  type Handle,
  hasRoom,
  type IPPool,
  type IPReservation,
  type IpamConfiguration,
  type LabelledObject,
  type OwnedObject,
} from "../../lib/datastore/resources.ts";
import type { NamespacedName } from "../../lib/kubernetes/objects.ts";
import type { EndpointKey, WorkloadEndpoint } from "../../lib/workload/endpoint.ts";

type Operation = "get" | "list" | "create" | "update" | "delete";

/** One call, as the gate sees it. */
export interface Call {
  readonly client: string;
  readonly kind: string;
  readonly operation: Operation;
  /** Empty for a list of everything; begins with "old" for a list that may be old. */
  readonly key: string;
  /** `answer`: the call was carried out with the fate `late`, and its answer waits to be delivered. */
  readonly phase: "request" | "answer";
}

/**
 * What becomes of a call.
 * `proceed`: carried out. `late`: carried out, its answer passes the gate again. `unavailable`: not carried out.
 * `repeated`: a read whose connection broke is sent once more and passes the gate again; other calls proceed.
 * `conflict`: an update or delete is refused although nobody came between; other calls proceed.
 * `answer-lost`: carried out, reported as unavailable. `overtaken`: an update is carried out, somebody else writes the object once more, and
 * the repetition of what was lost meets a conflict; other calls proceed. `crash`, `crash-after`: its client never hears of it again.
 */
export type Fate = "proceed" | "late" | "repeated" | "unavailable" | "conflict" | "answer-lost" | "overtaken" | "crash" | "crash-after";

export type Gate = (call: Call) => Fate | Promise<Fate>;

/** A local store that also knows of virtual machines. */
const MEMORY_TRAITS: Traits = { ...LOCAL_TRAITS, hasVirtualMachines: true };

/** The port with every collection writable, for seeding. */
export interface MemoryDatastore extends Datastore {
  readonly nodes: Collection<string, LabelledObject>;
  readonly namespaces: Collection<string, LabelledObject>;
  readonly clusterInformation: Collection<"default", ClusterInformation>;
  readonly virtualMachines: {
    readonly pods: Collection<NamespacedName, OwnedObject>;
    readonly instances: Collection<NamespacedName, OwnedObject>;
    readonly machines: Collection<NamespacedName, OwnedObject>;
  };
}

interface Row {
  readonly value: unknown;
  readonly revision: string;
}

/** `row` absent: a deletion. */
interface Write {
  readonly name: string;
  readonly row: Row | undefined;
}

/** What lists that may be old are made of. */
export interface Recollection {
  rows(kind: string): ReadonlyMap<string, Row>;
}

/** How a client meets the store. */
interface Access {
  readonly store: MemoryStore;
  readonly client: string;
  readonly gate: Gate | undefined;
  readonly recollection: Recollection | undefined;
}

/** What all clients share. */
export class MemoryStore {
  readonly #kinds = new Map<string, Map<string, Row>>();
  readonly #writes = new Map<string, Write[]>();
  #revision = 0;

  /**
   * A client's view; without a gate every call proceeds at once.
   * @param recollection answers the lists that may be old, as a server's memory does
   */
  connect(client = "client", gate?: Gate, recollection?: Recollection): MemoryDatastore {
    const access: Access = { store: this, client, gate, recollection };
    const collection = <K, T>(kind: string, keyOf: (key: K) => string): MemoryCollection<K, T> =>
      new MemoryCollection<K, T>(access, kind, keyOf);
    const endpoints = new MemoryEndpoints(access, "endpoint", endpointKey);
    return {
      description: `memory datastore of ${client}`,
      traits: { ...MEMORY_TRAITS, listsFromMemory: recollection !== undefined },
      pools: new MemoryPools(access, "pool", String),
      reservations: collection<string, IPReservation>("reservation", String) satisfies Reservations,
      ipamConfiguration: collection<"default", IpamConfiguration>("ipam-configuration", String),
      blocks: new MemoryBlocks(access, "block", cidrKey),
      affinities: new MemoryAffinities(access, "affinity", affinityKey),
      handles: collection<string, Handle>("handle", String) satisfies Handles,
      endpoints,
      records: new ObjectRecords(endpoints),
      profiles: NO_PROFILES,
      nodes: collection<string, LabelledObject>("node", String),
      namespaces: collection<string, LabelledObject>("namespace", String),
      clusterInformation: collection<"default", ClusterInformation>("cluster-information", String),
      virtualMachines: {
        pods: collection<NamespacedName, OwnedObject>("pod", endpointKey),
        instances: collection<NamespacedName, OwnedObject>("virtual-machine-instance", endpointKey),
        machines: collection<NamespacedName, OwnedObject>("virtual-machine", endpointKey),
      },
      async [Symbol.asyncDispose]() {},
    };
  }

  rows(kind: string): ReadonlyMap<string, Row> {
    return this.#rows(kind);
  }

  /** Every write to a kind, the first one first. */
  writes(kind: string): readonly Write[] {
    return this.#writes.get(kind) ?? [];
  }

  put(kind: string, name: string, value: unknown): Row {
    this.#revision += 1;
    const row = { value, revision: String(this.#revision) };
    this.#rows(kind).set(name, row);
    this.#note(kind, { name, row });
    return row;
  }

  remove(kind: string, name: string): void {
    this.#rows(kind).delete(name);
    this.#note(kind, { name, row: undefined });
  }

  #rows(kind: string): Map<string, Row> {
    let rows = this.#kinds.get(kind);
    if (rows === undefined) {
      rows = new Map();
      this.#kinds.set(kind, rows);
    }
    return rows;
  }

  #note(kind: string, write: Write): void {
    const writes = this.#writes.get(kind);
    if (writes === undefined) this.#writes.set(kind, [write]);
    else writes.push(write);
  }
}

/** A memory of the store that hears of the writes to each kind in their order, but late. */
export class LaggingMemory implements Recollection {
  readonly #store: MemoryStore;
  readonly #known = new Map<string, { readonly rows: Map<string, Row>; heard: number }>();

  constructor(store: MemoryStore) {
    this.#store = store;
  }

  rows(kind: string): ReadonlyMap<string, Row> {
    return this.#of(kind).rows;
  }

  /** How many writes to a kind it has not heard of. */
  lag(kind: string): number {
    return this.#store.writes(kind).length - this.#of(kind).heard;
  }

  /** It hears of the next writes to a kind, of all when it is not said how many. */
  hear(kind: string, count = this.lag(kind)): void {
    const known = this.#of(kind);
    for (const { name, row } of this.#store.writes(kind).slice(known.heard, known.heard + count)) {
      known.heard++;
      if (row === undefined) known.rows.delete(name);
      else known.rows.set(name, row);
    }
  }

  #of(kind: string) {
    let known = this.#known.get(kind);
    if (known === undefined) {
      known = { rows: new Map(), heard: 0 };
      this.#known.set(kind, known);
    }
    return known;
  }
}

class MemoryCollection<K, T> implements Collection<K, T> {
  protected readonly store: MemoryStore;
  protected readonly kind: string;
  readonly #access: Access;
  readonly #keyOf: (key: K) => string;

  constructor(access: Access, kind: string, keyOf: (key: K) => string) {
    this.store = access.store;
    this.kind = kind;
    this.#access = access;
    this.#keyOf = keyOf;
  }

  get(key: K): Promise<Versioned<T> | undefined> {
    const name = this.#keyOf(key);
    return this.call("get", name, () => this.#row(name));
  }

  list(options?: ListOptions): Promise<readonly Versioned<T>[]> {
    return this.call("list", keyOfList("", options), () => this.sorted(this.listed(options)));
  }

  create(key: K, value: T): Promise<Versioned<T>> {
    const name = this.#keyOf(key);
    return this.call("create", name, () => {
      if (this.#row(name) !== undefined) throw new DatastoreError("already-exists", `resource already exists: ${this.kind} ${name}`);
      return this.#put(name, value);
    });
  }

  update(key: K, value: T, revision: string): Promise<Versioned<T>> {
    const name = this.#keyOf(key);
    return this.call("update", name, () => {
      this.#check(name, revision);
      return this.#put(name, value);
    });
  }

  delete(key: K, revision: string): Promise<void> {
    const name = this.#keyOf(key);
    return this.call("delete", name, () => {
      this.#check(name, revision);
      this.store.remove(this.kind, name);
    });
  }

  /** Carries a call out as its fate wants. */
  protected async call<R>(operation: Operation, key: string, work: () => R): Promise<R> {
    const { gate, client } = this.#access;
    if (gate === undefined) return work();
    const call: Call = { client, kind: this.kind, operation, key, phase: "request" };
    switch (await gate(call)) {
      case "proceed":
        return work();
      case "late":
        return this.#deliverLate(call, work);
      case "repeated":
        return operation === "get" || operation === "list" ? this.call(operation, key, work) : work();
      case "unavailable":
        throw this.#unavailable(call);
      case "conflict":
        if (operation !== "update" && operation !== "delete") return work();
        throw new DatastoreError("conflict", `update conflict: ${this.kind} ${key} (arranged)`);
      case "answer-lost":
        work();
        throw this.#unavailable(call);
      case "overtaken":
        if (operation !== "update") return work();
        work();
        this.#touch(key);
        throw new DatastoreError("conflict", `update conflict: ${this.kind} ${key} (overtaken)`);
      case "crash":
        return never();
      case "crash-after":
        work();
        return never();
    }
  }

  /** In key order, by UTF-16 units: the keys of tests are ASCII. */
  protected sorted(rows = this.store.rows(this.kind)): Versioned<T>[] {
    return [...rows.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row as Versioned<T>);
  }

  /** What a list is made of: the store itself, unless it may be old and something remembers. */
  protected listed({ mayBeOld = false }: ListOptions = {}): ReadonlyMap<string, Row> {
    return ((mayBeOld && this.#access.recollection) || this.store).rows(this.kind);
  }

  async #deliverLate<R>(call: Call, work: () => R): Promise<R> {
    const outcome = attempt(work);
    const fate = await this.#access.gate?.({ ...call, phase: "answer" });
    if (fate === "crash" || fate === "crash-after") return never();
    return outcome();
  }

  #row(name: string): Versioned<T> | undefined {
    // A collection only ever puts values of its own type under its own kind.
    return this.store.rows(this.kind).get(name) as Versioned<T> | undefined;
  }

  #put(name: string, value: T): Versioned<T> {
    return { value, revision: this.store.put(this.kind, name, value).revision };
  }

  /** A new revision of what is there. */
  #touch(name: string): void {
    const row = this.#row(name);
    if (row !== undefined) this.#put(name, row.value);
  }

  #check(name: string, revision: string): void {
    const row = this.#row(name);
    if (row === undefined) throw new DatastoreError("not-found", `resource does not exist: ${this.kind} ${name}`);
    if (row.revision !== revision) throw new DatastoreError("conflict", `update conflict: ${this.kind} ${name}`);
  }

  #unavailable(call: Call): DatastoreError {
    return new DatastoreError("unavailable", `memory datastore: ${call.operation} of ${this.kind} ${call.key} did not get through`);
  }
}

class MemoryPools extends MemoryCollection<string, IPPool> implements Pools {
  reconcile(decide: (stored: readonly IPPool[]) => readonly IPPool[]): Promise<void> {
    return this.call("update", "*", () => {
      for (const pool of decide(this.sorted().map(({ value }) => value))) {
        this.store.put(this.kind, pool.name, pool);
      }
    });
  }
}

class MemoryBlocks extends MemoryCollection<string, Block> implements Blocks {
  listCidrs(): Promise<readonly string[]> {
    return this.call("list", "cidrs", () => this.sorted().map(({ value }) => value.cidr));
  }

  listWithRoom(owner: BlockOwner, family: 4 | 6): Promise<readonly Versioned<Block>[]> {
    return this.call("list", `with room ${owner.type}/${owner.name}/${family}`, () =>
      this.sorted().filter(
        ({ value }) =>
          value.affinity?.type === owner.type &&
          value.affinity.name === owner.name &&
          value.cidr.includes(":") === (family === 6) &&
          hasRoom(value),
      ),
    );
  }
}

class MemoryAffinities extends MemoryCollection<AffinityKey, BlockAffinity> implements BlockAffinities {
  listByOwner(owner: BlockOwner, family: 4 | 6, options?: ListOptions): Promise<readonly Versioned<BlockAffinity>[]> {
    const prefix = `${owner.type}/${owner.name}/${family}/`;
    return this.call("list", keyOfList(prefix, options), () => {
      const found: Versioned<BlockAffinity>[] = [];
      for (const [key, row] of this.listed(options)) if (key.startsWith(prefix)) found.push(row as Versioned<BlockAffinity>);
      return found.length < 2 ? found : found.sort((a, b) => (affinityKey(a.value) < affinityKey(b.value) ? -1 : 1));
    });
  }

  listAll(): Promise<readonly Versioned<BlockAffinity>[]> {
    return this.list();
  }

  listUnlabelled(): Promise<readonly Versioned<BlockAffinity>[]> {
    return this.call("list", "unlabelled", () => this.sorted().filter(({ value }) => !value.labelled));
  }
}

class MemoryEndpoints extends MemoryCollection<EndpointKey, WorkloadEndpoint> implements WorkloadEndpoints {
  listByPrefix(namespace: string, namePrefix: string): Promise<readonly Versioned<WorkloadEndpoint>[]> {
    return this.call("list", `${namespace}/${namePrefix}`, () =>
      this.sorted().filter(({ value }) => value.namespace === namespace && value.name.startsWith(namePrefix)),
    );
  }
}

function keyOfList(what: string, { mayBeOld = false }: ListOptions = {}): string {
  return mayBeOld ? `old ${what}`.trimEnd() : what;
}

function cidrKey(cidr: string): string {
  return cidr.replaceAll(/[.:/]/g, "-");
}

function affinityKey(key: AffinityKey): string {
  return `${key.owner.type}/${key.owner.name}/${key.cidr.includes(":") ? 6 : 4}/${cidrKey(key.cidr)}`;
}

function endpointKey(key: EndpointKey): string {
  return `${key.namespace}/${key.name}`;
}

/** Runs `work` now; its result or its error comes out when the returned function is called. */
function attempt<R>(work: () => R): () => R {
  try {
    const result = work();
    return () => result;
  } catch (error) {
    return () => {
      throw error;
    };
  }
}

function never<R>(): Promise<R> {
  return new Promise(() => {});
}
