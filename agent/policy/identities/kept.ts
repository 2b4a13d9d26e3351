/**
 * Keeps the identities of a node's pods where no cluster's controller does: in etcd, which agents share, or in this node's own store. It
 * writes in the background; no ADD waits for it.
 *
 * Each agent knows its own pods only. So an identity has a keeper, the node that created it or revived it last, which retires it when none
 * of its pods has the labels any more. Another node whose pods have them revives it, and is its keeper then. The identities of a node that
 * has no endpoint are anybody's.
 */
import type { Environment } from "../../../lib/cni/protocol.ts";
import { chooseDatastore } from "../../../lib/config/datastore-choice.ts";
import type { NetworkConfig } from "../../../lib/config/decode.ts";
import type { Datastore, Identities, Versioned } from "../../../lib/datastore/datastore.ts";
import { isDatastoreFailure } from "../../../lib/datastore/errors.ts";
import { identityCodec, parseStored } from "../../../lib/datastore/etcd/codecs.ts";
import { EtcdClient } from "../../../lib/datastore/etcd/etcd-client.ts";
import { allBelow, EtcdFeed } from "../../../lib/datastore/etcd/etcd-feed.ts";
import { KeyValueStore } from "../../../lib/datastore/etcd/key-value-store.ts";
import { resolveEtcdSettings } from "../../../lib/datastore/etcd/settings.ts";
import { openDatastore } from "../../../lib/datastore/open.ts";
import { type IdentityFacts, IdentityKeeper } from "../../../lib/identity/identity-keeper.ts";
import type { IdentityRecord, IdentityStore, StoredIdentity } from "../../../lib/identity/identity-object.ts";
import type { Feed, Sink } from "../../../lib/kubernetes/watch/feed.ts";
import { Watches } from "../../../lib/kubernetes/watch/informers.ts";
import type { ResourceCache } from "../../../lib/kubernetes/watch/resource-cache.ts";
import type { AgentLog } from "../../../lib/resident/agent-log.ts";
import type { Clock } from "../../../lib/system/waiting.ts";

const CREATED_BY = "tortie-node";
/** A look at a file of one's own that has not changed costs some microseconds. */
const ROWS_EVERY_MS = 1_000;
/** The endpoints of a cluster are a long list. */
const ORPHANS_EVERY_MS = 60 * 60_000;

export interface KeptInput {
  /** Names the store; `undefined` while it is not known. Not asked again once it is. */
  readonly config: () => NetworkConfig | undefined;
  readonly env: Environment;
  /** Name of this node. */
  readonly node: string;
  readonly clock: Clock;
  readonly log: Pick<AgentLog, "info" | "error">;
}

/** What this node's pods have, and whether all of them are known. */
export type OwnSets = Pick<IdentityFacts, "used"> & { readonly isWhole: boolean };

export class KeptIdentities implements AsyncDisposable {
  readonly #input: KeptInput;
  readonly #watches: Watches;
  readonly #keeper: IdentityKeeper;
  readonly #own: () => OwnSets;
  /** Closes what the watch uses. */
  #closeWatch = () => {};
  #cache: ResourceCache<StoredIdentity> | undefined;
  #datastore: Promise<Datastore> | undefined;
  /** Identities, as they were when it was looked, whose keeper has no endpoint. */
  #orphans: { readonly stored: ReadonlySet<string>; readonly lookedAt: number } | undefined;

  /** Opens nothing yet. @param own sets of the pods of this node */
  constructor(input: KeptInput, own: () => OwnSets) {
    const { node, clock, log } = input;
    this.#input = input;
    this.#own = own;
    this.#watches = new Watches({ clock, onProblem: (message) => log.error(message) });
    this.#keeper = new IdentityKeeper({
      store: storeOf(() => this.#identities(), node, clock),
      facts: () => this.#facts(),
      collects: (identity) => identity.keeper === node || this.#orphans?.stored.has(revisionOf(identity)) === true,
      clock,
      log,
      onChange: () => undefined,
    });
  }

  /** Shows what is in the store. Its first use begins the watch. */
  get cache(): ResourceCache<StoredIdentity> {
    this.#cache ??= this.#watches.begin(this.#feed());
    return this.#cache;
  }

  /** Says what the last run has found. */
  get findings(): readonly string[] {
    const tooLong = this.#keeper.tooLong.map(
      ({ key }) => `labels of pods of this node are too long for an identity: ${key.slice(0, 100)}…`,
    );
    return [...this.#keeper.findings, ...tooLong];
  }

  /** Gives numbers to the sets that have none, and takes back those that nobody has had for long. @throws what shall be tried again */
  async run(signal: AbortSignal): Promise<void> {
    await this.cache.untilSynced(signal);
    await this.#lookForOrphans();
    for (const item of this.#keeper.look()) {
      signal.throwIfAborted();
      await this.#keeper.work(item, signal);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // A list that is under way would be repeated until its time is over.
    this.#closeWatch();
    await this.#watches[Symbol.asyncDispose]();
    const datastore = await this.#datastore?.catch(() => undefined);
    await datastore?.[Symbol.asyncDispose]();
  }

  #facts(): IdentityFacts {
    const { used, isWhole } = this.#own();
    const { followedSince } = this.cache.state;
    // What is not known whole says of nothing that it is unused.
    return { used, identities: this.cache.list(), followedSince: (isWhole ? followedSince : undefined) ?? this.#input.clock.now() };
  }

  /** Finds out now and then which identities are those of nodes without endpoints, where there are any that none of our pods has. */
  async #lookForOrphans(): Promise<void> {
    const { clock, node } = this.#input;
    if (this.#orphans !== undefined && clock.now() - this.#orphans.lookedAt < ORPHANS_EVERY_MS) return;
    const ofOthers = this.cache.list().filter(({ keeper }) => keeper !== node);
    if (ofOthers.length === 0) return;
    const { used } = this.#own();
    const others = ofOthers.filter(({ key }) => !used.has(key));
    if (others.length === 0) return;
    const lookedAt = clock.now();
    const nodes = new Set((await (await this.#opened()).endpoints.list()).map(({ value }) => value.node));
    this.#orphans = { stored: new Set(others.filter(({ keeper }) => !nodes.has(keeper)).map(revisionOf)), lookedAt };
  }

  async #identities(): Promise<Identities> {
    const { identities, description } = await this.#opened();
    if (identities === undefined) throw new Error(`${description} keeps no identities`);
    return identities;
  }

  async #opened(): Promise<Datastore> {
    if (this.#datastore !== undefined) return this.#datastore;
    const config = this.#input.config();
    if (config === undefined) throw new Error("no network of this node has named its datastore yet");
    this.#datastore = openDatastore(config, this.#input.env).catch((error: unknown) => {
      // What stands in the way may be gone the next time.
      this.#datastore = undefined;
      throw error;
    });
    return this.#datastore;
  }

  #feed(): Feed<StoredIdentity> {
    const { config: place, env, clock } = this.#input;
    const config = place();
    if (config === undefined || chooseDatastore(config, env) !== "etcdv3") {
      const isKnown = () => this.#datastore !== undefined || place() !== undefined;
      const list = async () => (isKnown() ? (await this.#identities()).list() : []);
      return new RowFeed(list, clock);
    }
    const client = new EtcdClient(resolveEtcdSettings(config.etcd, env));
    this.#closeWatch = () => client.close();
    const { prefix } = identityCodec;
    return new EtcdFeed(
      {
        name: "identities",
        prefix,
        nameOf: allBelow(prefix),
        decode: (pair) => storedOf({ value: parseStored(identityCodec, pair).value, revision: pair.modRevision }),
      },
      { client, store: new KeyValueStore(client) },
    );
  }
}

/** Follows rows of a file by looking at them again and again. */
class RowFeed implements Feed<StoredIdentity> {
  readonly name = "identities";
  readonly isHeartbeat = false;
  readonly #list: () => Promise<readonly Versioned<IdentityRecord>[]>;
  readonly #clock: Pick<Clock, "sleep">;
  #known: readonly string[] = [];

  constructor(list: () => Promise<readonly Versioned<IdentityRecord>[]>, clock: Pick<Clock, "sleep">) {
    this.#list = list;
    this.#clock = clock;
  }

  async list(sink: Pick<Sink<StoredIdentity>, "put">): Promise<string> {
    const rows = await this.#list();
    for (const row of rows) sink.put(String(row.value.number), row.revision, () => storedOf(row));
    this.#known = rows.map(({ value }) => String(value.number));
    return "";
  }

  async follow(_version: string, sink: Sink<StoredIdentity>, begun: () => void, signal: AbortSignal): Promise<void> {
    begun();
    for (;;) {
      await this.#clock.sleep(ROWS_EVERY_MS, signal);
      if (signal.aborted) return;
      const before = this.#known;
      await this.list(sink);
      const now = new Set(this.#known);
      for (const number of before) if (!now.has(number)) sink.delete(number);
    }
  }
}

/** Keeps identities in a collection whose writes compare revisions. */
function storeOf(identities: () => Promise<Identities>, node: string, clock: Pick<Clock, "date">): IdentityStore {
  return {
    create: (number, { key, labels }) =>
      unlessBeaten(async () => {
        const createdAt = clock.date().toISOString();
        const identity = { number, key, labels, state: "active", retiredAt: "", createdBy: CREATED_BY, createdAt, keeper: node } as const;
        await (await identities()).create(number, identity);
      }),
    async get(number) {
      const found = await (await identities()).get(number);
      return found && storedOf(found);
    },
    setState: ({ uid: _, resourceVersion, ...identity }, retiredAt) =>
      unlessBeaten(async () => {
        const changed =
          retiredAt === undefined
            ? ({ state: "active", retiredAt: "", keeper: node } as const)
            : ({ state: "retired", retiredAt } as const);
        await (await identities()).update(identity.number, { ...identity, ...changed }, resourceVersion);
      }),
    delete: ({ number, resourceVersion }) => unlessBeaten(async () => (await identities()).delete(number, resourceVersion)),
  };
}

/** @returns whether it was done; not where another writer was faster @throws any other failure */
async function unlessBeaten(write: () => Promise<void>): Promise<boolean> {
  try {
    await write();
    return true;
  } catch (error) {
    if (isDatastoreFailure(error, "already-exists") || isDatastoreFailure(error, "conflict") || isDatastoreFailure(error, "not-found"))
      return false;
    throw error;
  }
}

function storedOf({ value, revision }: Versioned<IdentityRecord>): StoredIdentity {
  return { ...value, uid: "", resourceVersion: revision };
}

function revisionOf({ number, resourceVersion }: StoredIdentity): string {
  return `${number} ${resourceVersion}`;
}
