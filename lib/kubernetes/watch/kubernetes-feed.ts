/** Reads a list and a watch of the Kubernetes API: pages of a list, then events from its resourceVersion on (Kubernetes API concepts). */
import { type Fields, isObject, section, text } from "../../json/decode.ts";
import type { Clock } from "../../system/waiting.ts";
import { pagesOf, parsePage, type Selectors, selectorTerms } from "../api-client.ts";
import { type Feed, GoneError, lines, type Sink, unlessSilent, WatchError } from "./feed.ts";

const GONE = 410;
/** How long the server is asked to keep a watch: between this and twice this, so that restarted servers are not met by all at once. */
const WATCH_SECONDS = 300;
/** The server ends a watch after the time that it was asked for; so much later it, or the way to it, counts as dead. */
const PATIENCE_SECONDS = 15;

/** Which objects, and what is kept of them. */
export interface Selection<T> extends Selectors {
  /** For messages: "pods of node a". */
  readonly name: string;
  /** Path of the collection: "/api/v1/pods". */
  readonly path: string;
  /** Text of a list or an event before it is parsed, for numbers that JSON.parse would round. */
  readonly prepare?: ((json: string) => string) | undefined;
  /** @throws Error when the object cannot be read: it is left out and reported */
  readonly decode: (object: Fields) => T;
  /** How often the watch is requested again, as proof that the server can be reached. */
  readonly heartbeatSeconds?: number | undefined;
  /** The server leaves out everything but the metadata; `decode` gets nothing else. */
  readonly isMetadataOnly?: boolean;
  /** There may be tens of thousands: the first list comes in pages too, since parsing it whole would keep everything else waiting. */
  readonly isLarge?: boolean;
}

/**
 * Asks for metadata alone (Kubernetes API concepts, "Metadata-only fetches"); a server that knows no such form sends whole objects.
 */
const METADATA_OF_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json";
const METADATA_OF_EVENT = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";

/** How the server is asked: by an `ApiConnection`, or by a test. Both are rejected with an error whose `status` is the HTTP status. */
export interface WatchSource {
  /** @param target path and query @param accept which form is asked for; `undefined`: whole objects @returns text of the answer */
  list(target: string, signal: AbortSignal, accept?: string): Promise<string>;
  watch(target: string, signal: AbortSignal, accept?: string): Promise<AsyncIterable<Uint8Array>>;
}

export class KubernetesFeed<T> implements Feed<T> {
  readonly #selection: Selection<T>;
  readonly #source: WatchSource;
  readonly #clock: Pick<Clock, "now" | "random" | "sleep">;

  constructor(selection: Selection<T>, source: WatchSource, clock: Pick<Clock, "now" | "random" | "sleep">) {
    this.#selection = selection;
    this.#source = source;
    this.#clock = clock;
  }

  get name(): string {
    return this.#selection.name;
  }

  get isHeartbeat(): boolean {
    return this.#selection.heartbeatSeconds !== undefined;
  }

  async list(sink: Pick<Sink<T>, "put">, mayBeOld: boolean, signal: AbortSignal): Promise<string> {
    const { path, prepare = asItIs, isMetadataOnly = false, isLarge = false } = this.#selection;
    const accept = isMetadataOnly ? METADATA_OF_LIST : undefined;
    const ask = (query: string) => unlessGone(async () => parsePage(prepare(await this.#source.list(path + query, signal, accept))));
    let version = "";
    for await (const page of pagesOf(ask, this.#selection, mayBeOld && !isLarge)) {
      for (const item of page.items) this.#put(sink, item);
      version = page.version;
    }
    return version;
  }

  async follow(version: string, sink: Sink<T>, begun: () => void, signal: AbortSignal): Promise<void> {
    const { path, prepare = asItIs, isMetadataOnly = false } = this.#selection;
    const accept = isMetadataOnly ? METADATA_OF_EVENT : undefined;
    const seconds = this.#watchSeconds();
    const terms = ["watch=true", "allowWatchBookmarks=true", `timeoutSeconds=${seconds}`, `resourceVersion=${version}`];
    const target = `${path}?${[...selectorTerms(this.#selection), ...terms].join("&")}`;
    const open = async (ended: AbortSignal) => {
      const body = await unlessGone(() => this.#source.watch(target, ended, accept));
      begun();
      return watchEvents(body, prepare);
    };
    for await (const event of unlessSilent(open, (seconds + PATIENCE_SECONDS) * 1_000, this.#clock, signal)) {
      if (event.type === "ERROR") throw event.code === GONE ? new GoneError(event.message) : new WatchError(event.message, event.code);
      if (event.type === "BOOKMARK") {
        sink.reached(event.resourceVersion);
        continue;
      }
      if (event.type === "DELETED") sink.delete(keyOf(event.object));
      else this.#put(sink, event.object);
      sink.reached(versionOf(event.object));
    }
  }

  #watchSeconds(): number {
    return this.#selection.heartbeatSeconds ?? Math.round(WATCH_SECONDS * (1 + this.#clock.random()));
  }

  #put(sink: Pick<Sink<T>, "put">, object: Fields): void {
    sink.put(keyOf(object), versionOf(object), () => this.#selection.decode(object));
  }
}

async function unlessGone<R>(ask: () => Promise<R>): Promise<R> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof Error && "status" in error && error.status === GONE) throw new GoneError(error.message, { cause: error });
    throw error;
  }
}

function keyOf(object: Fields): string {
  const metadata = section(object, "metadata");
  const namespace = text(metadata, "namespace");
  return namespace === "" ? text(metadata, "name") : `${namespace}/${text(metadata, "name")}`;
}

function versionOf(object: Fields): string {
  return text(section(object, "metadata"), "resourceVersion");
}

function asItIs(json: string): string {
  return json;
}

export type WatchEvent =
  | { readonly type: "ADDED" | "MODIFIED" | "DELETED"; readonly object: Fields }
  | { readonly type: "BOOKMARK"; readonly resourceVersion: string }
  | { readonly type: "ERROR"; readonly code: number; readonly message: string };

/**
 * @param prepare the text of an event before it is parsed
 * @throws Error when the body ends in an error, or a line is no event
 */
export async function* watchEvents(body: AsyncIterable<Uint8Array>, prepare: (json: string) => string): AsyncGenerator<WatchEvent> {
  for await (const line of lines(body)) yield decodeEvent(JSON.parse(prepare(line)));
}

function decodeEvent(event: unknown): WatchEvent {
  if (!isObject(event)) throw new Error("the watch sent something that is no event");
  const type = text(event, "type");
  const object = section(event, "object");
  switch (type) {
    case "ADDED":
    case "MODIFIED":
    case "DELETED":
      return { type, object };
    case "BOOKMARK":
      return { type, resourceVersion: text(section(object, "metadata"), "resourceVersion") };
    case "ERROR":
      return { type, code: typeof object.code === "number" ? object.code : 0, message: text(object, "message") };
    default:
      throw new Error(`the watch sent an event of the type ${JSON.stringify(type)}`);
  }
}
