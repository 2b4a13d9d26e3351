/**
 * Reads a prefix of etcd's keys for a cache: all pairs as of one revision, then the watch from the next revision on, over the gateway's
 * stream (etcd's API reference, "Watch API").
 */
import { messageOf } from "../../errors/errors.ts";
import { type Fields, flag, isNumber, objects, parsedObject, section, text } from "../../json/decode.ts";
import { type Feed, GoneError, lines, type Sink } from "../../kubernetes/watch/feed.ts";
import type { Watched } from "../calico/stored-kind.ts";
import { CODES, isCompacted, type KeyValue, pairOf, revisionOf, toBase64 } from "./answers.ts";
import { type EtcdCodec, parseStored } from "./codecs.ts";
import type { EtcdClient, EtcdStream } from "./etcd-client.ts";
import { endOf, type KeyValueStore } from "./key-value-store.ts";

const WATCH = "/v3/watch";
/** The longest time for which a dead connection stays unnoticed: the feed's heartbeat. */
const HEARTBEAT_MS = 30_000;
/** How often any other watch is requested again: where a single connection is dead, the heartbeat of another does not notice. */
const RENEWAL_MS = 300_000;

/** Which pairs, and what is kept of them. */
export interface KeySelection<T> {
  /** For messages: "IPPools". */
  readonly name: string;
  readonly prefix: string;
  /** Names the object of a key below the prefix; `undefined`: the pair is of another kind. */
  readonly nameOf: (key: string) => string | undefined;
  /** @throws Error when the value cannot be read: it is left out and reported */
  readonly decode: (pair: KeyValue, name: string) => T;
  /** How often the watch is requested again, as proof that a member can be reached. */
  readonly isHeartbeat?: boolean;
}

/** What the feed asks of etcd. */
export interface EtcdSource {
  readonly store: Pick<KeyValueStore, "pages">;
  readonly client: Pick<EtcdClient, "stream">;
}

export class EtcdFeed<T> implements Feed<T> {
  readonly #selection: KeySelection<T>;
  readonly #source: EtcdSource;
  readonly #heartbeatMs: number;

  constructor(selection: KeySelection<T>, source: EtcdSource, heartbeatMs = HEARTBEAT_MS) {
    this.#selection = selection;
    this.#source = source;
    this.#heartbeatMs = heartbeatMs;
  }

  get name(): string {
    return this.#selection.name;
  }

  get isHeartbeat(): boolean {
    return this.#selection.isHeartbeat === true;
  }

  /** Always as of now: the members agree on a read. */
  async list(sink: Pick<Sink<T>, "put">): Promise<string> {
    let version = "";
    try {
      for await (const { pairs, revision } of this.#source.store.pages(this.#selection.prefix)) {
        for (const pair of pairs) this.#put(sink, pair);
        version = revision;
      }
    } catch (error) {
      if (isCompacted(error)) throw new GoneError(messageOf(error), { cause: error });
      throw error;
    }
    return version;
  }

  async follow(version: string, sink: Sink<T>, begun: () => void, signal: AbortSignal): Promise<void> {
    const heartbeat = new AbortController();
    let timer: NodeJS.Timeout | undefined;
    const beat = () => {
      // Only now: a member that does not answer is a failure, and no end.
      timer = setTimeout(() => heartbeat.abort(), this.isHeartbeat ? this.#heartbeatMs : RENEWAL_MS);
      begun();
    };
    try {
      await this.#read(version, sink, beat, AbortSignal.any([signal, heartbeat.signal]));
    } catch (error) {
      if (!heartbeat.signal.aborted || signal.aborted) throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  async #read(version: string, sink: Sink<T>, begun: () => void, signal: AbortSignal): Promise<void> {
    const { prefix } = this.#selection;
    const startRevision = String(BigInt(version) + 1n);
    const request = { createRequest: { key: toBase64(prefix), rangeEnd: endOf(prefix), startRevision, progressNotify: true } };
    const stream = await this.#source.client.stream(WATCH, request, signal);
    for await (const line of lines(stream.bytes)) {
      const answer = answerOf(line, stream);
      if (flag(answer, "canceled")) throw cancellation(answer, stream);
      if (flag(answer, "created")) {
        assertNotBefore(version, revisionOf(answer));
        begun();
        continue;
      }
      this.#tell(answer, sink);
    }
  }

  #tell(answer: Fields, sink: Sink<T>): void {
    // Without events it is a notice of progress: all up to the revision in its header has come.
    let reached = revisionOf(answer);
    for (const event of objects(answer, "events")) {
      const pair = pairOf(section(event, "kv"));
      reached = pair.modRevision;
      const name = this.#selection.nameOf(pair.key);
      if (name === undefined) continue;
      // The gateway leaves out what is 0, and PUT is.
      if (text(event, "type") === "DELETE") sink.delete(name);
      else this.#put(sink, pair);
    }
    sink.reached(reached);
  }

  #put(sink: Pick<Sink<T>, "put">, pair: KeyValue): void {
    const name = this.#selection.nameOf(pair.key);
    if (name !== undefined) sink.put(name, pair.modRevision, () => this.#selection.decode(pair, name));
  }
}

/** @throws EtcdError for what the member says instead */
function answerOf(line: string, stream: EtcdStream): Fields {
  const message = parsedObject(line);
  // Not in the parser's own words, which quote what they stumble over: it may be a part of a secret.
  if (message === undefined) throw stream.failed({ code: CODES.none, message: "the answer is not understood: it is no JSON object" });
  const error = section(message, "error");
  const said = text(error, "message");
  const code = isNumber(error.grpc_code) ? error.grpc_code : isNumber(error.code) ? error.code : CODES.none;
  if (said !== "" || code !== CODES.none) throw stream.failed({ code, message: said });
  return section(message, "result");
}

/** The reason of a watch that is ended has the form of gRPC's errors: "rpc error: code = PermissionDenied desc = …". */
function cancellation(answer: Fields, stream: EtcdStream): Error {
  const compacted = text(answer, "compact_revision");
  if (compacted !== "" && compacted !== "0") return new GoneError(`revisions up to ${compacted} have been compacted`);
  const reason = text(answer, "cancel_reason");
  const name = /code = (\w+)/.exec(reason)?.[1] ?? "";
  return stream.failed({ code: CODES_BY_NAME[name] ?? CODES.unavailable, message: reason || "the watch was ended" });
}

const CODES_BY_NAME: Readonly<Record<string, number>> = {
  PermissionDenied: CODES.permissionDenied,
  Unauthenticated: CODES.unauthenticated,
  InvalidArgument: CODES.invalidArgument,
};

/**
 * Refuses revisions that begin again: they are those of another etcd, whose data came from a backup. A member that lags behind is asked
 * again.
 */
function assertNotBefore(version: string, revision: string): void {
  if (BigInt(revision || "0") < BigInt(version)) {
    throw new GoneError(`etcd is at revision ${revision}, and has been at ${version} before`);
  }
}

/**
 * Selects what is watched of a kind in etcd, decoded as its collection decodes it.
 *
 * @param prefix of the keys; with `only` they are that one key
 * @param nameOf what a cache calls the object of a key
 */
export function etcdSelection<K, T>(codec: EtcdCodec<K, T>, prefix: string, nameOf: KeySelection<T>["nameOf"]): KeySelection<Watched<T>> {
  return {
    name: `${codec.title} below ${prefix}`,
    prefix,
    nameOf,
    decode(pair, name) {
      const { value } = parseStored(codec, pair);
      codec.verify?.(value);
      return { name, stored: { value, revision: pair.modRevision }, isMarked: false };
    },
  };
}

/** Selects all objects of a kind, by the rest of their keys. */
export function allBelow(prefix: string): (key: string) => string | undefined {
  return (key) => (key.startsWith(prefix) && key.slice(prefix.length)) || undefined;
}

/** Selects the one object of a key, and not those whose keys begin alike. */
export function only(wanted: string, name: string): (key: string) => string | undefined {
  return (key) => (key === wanted ? name : undefined);
}
