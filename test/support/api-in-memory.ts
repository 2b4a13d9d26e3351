/**
 * An API server's objects in memory, for unit tests of programs that decide by watches and write by requests: versions and preconditions
 * count as on a real one, finalizers keep what is deleted, watches know of every write at once. Nothing is validated.
 */
import { parseJson } from "../../lib/json/parse.ts";
import { isJsonObject, type JsonObject, type JsonValue, stringifyJson } from "../../lib/json/value.ts";
import { type ApiClient, ApiError, type ApiRequest } from "../../lib/kubernetes/api-client.ts";
import type { Selection } from "../../lib/kubernetes/watch/kubernetes-feed.ts";
import type { CacheState, ResourceCache } from "../../lib/kubernetes/watch/resource-cache.ts";

/** `/apis/<group>/<version>` or `/api/v1`, and what is below; a group by itself is an object, there or not. */
interface Place {
  readonly root: string;
  readonly namespace: string;
  readonly plural: string;
  /** Empty for the collection. */
  readonly name: string;
}

interface Row {
  readonly place: Place;
  readonly object: JsonObject;
}

export class ApiInMemory implements ApiClient {
  readonly server = "https://in.memory:6443";
  /** "PATCH /apis/…/ippools/a" of every request that was not a GET and was carried out, in order. */
  readonly writes: string[] = [];
  /** Done before each request: what it throws is the answer. */
  before: (request: ApiRequest) => unknown = () => undefined;
  /** Of every watch; `undefined` while they are lost. */
  followedSince: number | undefined = 0;
  isSynced = true;
  readonly #rows = new Map<string, Row>();
  #version = 0;

  async request(request: ApiRequest): Promise<string> {
    await this.before(request);
    const [path = "", query = ""] = request.path.split("?");
    const place = placeOf(path);
    const answer = this.#answer(request, place, new URLSearchParams(query));
    if (request.method !== "GET") this.writes.push(`${request.method} ${path}`);
    return stringifyJson(answer);
  }

  close(): void {}

  /** Makes an object, or changes the one that is there, behind the back of the program. @param path with its name */
  put(path: string, object: JsonObject): void {
    const place = placeOf(path);
    const before = this.#rows.get(keyOf(place))?.object;
    const metadata = { name: place.name, ...(place.namespace === "" ? {} : { namespace: place.namespace }), uid: uidOf(before) };
    this.#keep(place, { ...object, metadata: { ...metadata, ...part(object, "metadata") } });
  }

  remove(path: string): void {
    this.#rows.delete(keyOf(placeOf(path)));
  }

  get(path: string): JsonObject | undefined {
    return this.#rows.get(keyOf(placeOf(path)))?.object;
  }

  /** As `Informers` does. */
  watch<T>(selection: Selection<T>): ResourceCache<T> {
    const { root, plural } = placeOf(selection.path);
    const { prepare = (json: string) => json, decode } = selection;
    // Once each version; what cannot be read is left out.
    const known = new WeakMap<JsonObject, readonly T[]>();
    const read = (object: JsonObject): readonly T[] => {
      try {
        return [decode(JSON.parse(prepare(stringifyJson(object))))];
      } catch {
        return [];
      }
    };
    const decoded = () => {
      const found = new Map<string, T>();
      for (const { place, object } of this.#rows.values()) {
        if (place.root !== root || place.plural !== plural) continue;
        const values = known.get(object) ?? read(object);
        known.set(object, values);
        for (const value of values) found.set(nameOf(place), value);
      }
      return found;
    };
    const state = () => this.#stateOf(selection.name);
    return {
      get state() {
        return state();
      },
      get isUsable() {
        return state().followedSince !== undefined;
      },
      get: (key) => decoded().get(key),
      list: () => [...decoded().values()],
      onChange: () => () => {},
      untilSynced: async () => {},
      caughtUp: async () => {},
    };
  }

  #stateOf(name: string): CacheState {
    const { isSynced, followedSince } = this;
    return { name, isSynced, followedSince, lostSince: followedSince === undefined ? 0 : undefined, problem: undefined };
  }

  #answer({ method, body = "{}" }: ApiRequest, place: Place, query: URLSearchParams): JsonObject {
    const sent = parseJson(body);
    if (method === "GET" && place.plural !== "" && place.name === "") return this.#list(place, query.get("labelSelector") ?? "");
    if (method === "POST") return this.#create(place, sent);
    const row = this.#rows.get(keyOf(place));
    if (row === undefined) throw new ApiError(`${place.plural} ${place.name}: not found`, { status: 404 });
    if (method === "GET") return row.object;
    const changed = method === "DELETE" ? row.object : changedBy(method, row.object, sent);
    const wanted = method === "DELETE" ? part(sent, "preconditions") : part(changed, "metadata");
    const metadata = part(row.object, "metadata");
    for (const precondition of ["uid", "resourceVersion"]) {
      if (wanted[precondition] !== undefined && wanted[precondition] !== metadata[precondition]) {
        throw new ApiError(`${place.name}: ${precondition} differs`, { status: 409, reason: "Conflict" });
      }
    }
    if (method !== "DELETE") return this.#keep(row.place, changed);
    return this.#keep(row.place, { ...row.object, metadata: { ...metadata, deletionTimestamp: "2030-01-01T00:00:00Z" } });
  }

  #list({ root, namespace, plural }: Place, selector: string): JsonObject {
    const rows = [...this.#rows.values()].filter(({ place, object }) => {
      const isThere = place.root === root && place.plural === plural && (namespace === "" || place.namespace === namespace);
      return isThere && isSelected(object, selector);
    });
    return { items: rows.map(({ object }) => object), metadata: { resourceVersion: String(this.#version) } };
  }

  #create(collection: Place, sent: JsonValue): JsonObject {
    const name = part(sent, "metadata").name;
    const place = { ...collection, name: typeof name === "string" ? name : "" };
    if (this.#rows.has(keyOf(place))) throw new ApiError(`${place.name} exists`, { status: 409, reason: "AlreadyExists" });
    if (!isJsonObject(sent)) throw new ApiError("no object", { status: 400 });
    return this.#keep(place, { ...sent, metadata: { ...part(sent, "metadata"), uid: uidOf(undefined) } });
  }

  /** Under a version of its own; one whose deletion has begun stays while it has finalizers. */
  #keep(place: Place, object: JsonObject): JsonObject {
    const metadata = part(object, "metadata");
    const kept = { ...object, metadata: { ...metadata, resourceVersion: String(++this.#version) } };
    const { finalizers, deletionTimestamp } = metadata;
    const isHeld = Array.isArray(finalizers) && finalizers.length > 0;
    if (deletionTimestamp !== undefined && !isHeld) this.#rows.delete(keyOf(place));
    else this.#rows.set(keyOf(place), { place, object: kept });
    return kept;
  }
}

function placeOf(path: string): Place {
  const segments = path.split("/").slice(1).map(decodeURIComponent);
  const length = segments[0] === "api" ? 2 : 3;
  const root = segments.slice(0, length).join("/");
  const [first = "", second = "", ...rest] = segments.slice(length);
  if (first === "namespaces" && rest.length > 0) return { root, namespace: second, plural: rest[0] ?? "", name: rest[1] ?? "" };
  return { root, namespace: "", plural: first, name: second };
}

function keyOf({ root, plural, ...place }: Place): string {
  return `${root} ${plural} ${nameOf({ root, plural, ...place })}`;
}

function nameOf({ namespace, name }: Place): string {
  return namespace === "" ? name : `${namespace}/${name}`;
}

function part(object: JsonValue | undefined, name: string): JsonObject {
  const value = isJsonObject(object) ? object[name] : undefined;
  return isJsonObject(value) ? value : {};
}

function uidOf(object: JsonObject | undefined): JsonValue {
  return part(object, "metadata").uid ?? crypto.randomUUID();
}

function changedBy(method: string, object: JsonObject, sent: JsonValue): JsonObject {
  if (Array.isArray(sent)) return sent.reduce(operated, object);
  const changed = method === "PATCH" ? merged(object, sent) : sent;
  return isJsonObject(changed) ? changed : {};
}

/** RFC 7386. */
function merged(before: JsonValue | undefined, patch: JsonValue): JsonValue {
  if (!isJsonObject(patch)) return patch;
  const result: Record<string, JsonValue> = { ...(isJsonObject(before) ? before : {}) };
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name];
    else result[name] = merged(result[name], value);
  }
  return result;
}

/** `test` and `add` of RFC 6902, of members. */
function operated(object: JsonObject, operation: JsonValue): JsonObject {
  if (!isJsonObject(operation)) return object;
  const { op, path, value = null } = operation;
  const names = String(path).split("/").slice(1);
  const [member = "", ...above] = names.map((name) => name.replaceAll("~1", "/").replaceAll("~0", "~")).reverse();
  const parents = above.reverse();
  const holder = parents.reduce((found: JsonObject, name) => part(found, name), object);
  if (op === "test" && holder[member] !== value) throw new ApiError(`test of ${String(path)} failed`, { status: 422 });
  const change = parents.reduceRight((inner: JsonValue, name): JsonValue => ({ [name]: inner }), { [member]: value });
  const changed = op === "add" ? merged(object, change) : object;
  return isJsonObject(changed) ? changed : object;
}

/** `name=value`, `name` and `!name` with commas between them. */
function isSelected(object: JsonObject, selector: string): boolean {
  const labels = part(part(object, "metadata"), "labels");
  return selector.split(",").every((term) => {
    if (term === "") return true;
    if (term.startsWith("!")) return labels[term.slice(1)] === undefined;
    const [name = "", value] = term.split("=");
    return value === undefined ? labels[name] !== undefined : labels[name] === value;
  });
}
