/**
 * An API server's lists and watches in memory, over the connection that informers use: pages, events from a version on, metadata alone where
 * that is asked for, refusals, cut watches, a history that is forgotten. Nothing is validated, and there is no latency.
 */
import type { Fields } from "../../lib/json/decode.ts";
import type { ApiCall } from "../../lib/kubernetes/api-client.ts";
import type { Exchanged } from "../../lib/kubernetes/client/transport.ts";
import type { WatchedServer } from "../../lib/kubernetes/watch/informers.ts";

interface Event {
  readonly version: number;
  readonly path: string;
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly object: Fields;
}

interface Watch {
  readonly path: string;
  send(event: Event): void;
  fail(): void;
}

type Metadata = { readonly name: string; readonly namespace?: string } & Fields;
export type ObjectToKeep = { readonly metadata: Metadata } & Fields;

export class WatchedApi implements WatchedServer {
  readonly server = "https://in.memory:6443";
  /** Path and query of every request, and the form of objects that it asked for. */
  readonly asked: { readonly target: string; readonly accept: string | undefined }[] = [];
  readonly #objects = new Map<string, Map<string, ObjectToKeep>>();
  readonly #watches = new Set<Watch>();
  readonly #refusals = new Map<string, { readonly status: number; readonly message: string }>();
  #history: Event[] = [];
  #version = 100;
  #oldest = 0;

  /** Makes the object, or replaces it. @param path of the collection: "/api/v1/pods" */
  put(path: string, object: ObjectToKeep): void {
    const all = this.#objects.get(path) ?? new Map<string, ObjectToKeep>();
    this.#objects.set(path, all);
    const key = keyOf(object.metadata);
    const type = all.has(key) ? "MODIFIED" : "ADDED";
    const kept = { ...object, metadata: { ...object.metadata, resourceVersion: String(++this.#version) } };
    all.set(key, kept);
    this.#tell({ version: this.#version, path, type, object: kept });
  }

  /** @param key "namespace/name", or "name" */
  remove(path: string, key: string): void {
    const object = this.#objects.get(path)?.get(key);
    if (object === undefined) throw new Error(`there is no ${key} below ${path}`);
    this.#objects.get(path)?.delete(key);
    this.#tell({ version: ++this.#version, path, type: "DELETED", object });
  }

  /** Answers every request below a path so, until told otherwise; ends the watches there. */
  refuse(path: string, refusal: { readonly status: number; readonly message: string } | undefined): void {
    if (refusal === undefined) this.#refusals.delete(path);
    else this.#refusals.set(path, refusal);
    for (const watch of this.#watches) if (watch.path === path) watch.fail();
  }

  /** Ends every watch in the middle. */
  cut(): void {
    for (const watch of this.#watches) watch.fail();
  }

  /** Watches can begin from now on only: everybody else must list again. */
  forget(): void {
    this.#history = [];
    this.#oldest = this.#version + 1;
    this.#version++;
  }

  redact(text: string): string {
    return text;
  }

  exchange({ path: target, accept }: ApiCall): Promise<Exchanged> {
    this.asked.push({ target, accept });
    const { path, query } = split(target);
    const refusal = this.#refusals.get(path);
    if (refusal !== undefined) return Promise.resolve(answer(refusal.status, statusOf(refusal)));
    const all = [...(this.#objects.get(path)?.values() ?? [])];
    const [from, limit] = [Number(query.get("continue") ?? 0), Number(query.get("limit") ?? all.length)];
    const items = all.slice(from, from + limit).map((object) => shown(object, accept));
    const left = all.length - from - items.length;
    const next = left > 0 ? { continue: String(from + limit), remainingItemCount: left } : {};
    return Promise.resolve(answer(200, { items, metadata: { resourceVersion: String(this.#version), ...next } }));
  }

  stream({ path: target, accept }: Pick<ApiCall, "path" | "accept">, signal: AbortSignal): Promise<Response> {
    this.asked.push({ target, accept });
    const { path, query } = split(target);
    const since = Number(query.get("resourceVersion"));
    const refusal = since < this.#oldest ? { status: 410, message: "too old resource version" } : this.#refusals.get(path);
    if (refusal !== undefined) return Promise.resolve(new Response(JSON.stringify(statusOf(refusal)), { status: refusal.status }));
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        const watch: Watch = {
          path,
          send: ({ type, object }) => {
            controller.enqueue(new TextEncoder().encode(`${JSON.stringify({ type, object: shown(object, accept) })}\n`));
          },
          fail: () => {
            this.#watches.delete(watch);
            controller.error(new Error("cut by the test"));
          },
        };
        for (const event of this.#history) if (event.path === path && event.version > since) watch.send(event);
        this.#watches.add(watch);
        signal.addEventListener("abort", () => this.#watches.delete(watch));
      },
    });
    return Promise.resolve(new Response(body));
  }

  #tell(event: Event): void {
    this.#history.push(event);
    for (const watch of this.#watches) if (watch.path === event.path) watch.send(event);
  }
}

function shown(object: Fields, accept: string | undefined): Fields {
  return accept?.includes("PartialObjectMetadata") ? { metadata: object.metadata } : object;
}

function keyOf({ name, namespace }: Metadata): string {
  return namespace === undefined ? name : `${namespace}/${name}`;
}

function split(target: string): { readonly path: string; readonly query: URLSearchParams } {
  const [path = "", query = ""] = target.split("?");
  return { path, query: new URLSearchParams(query) };
}

function statusOf({ status, message }: { readonly status: number; readonly message: string }): Fields {
  return { kind: "Status", status: "Failure", message, code: status };
}

function answer(status: number, body: Fields): Exchanged {
  return { status, contentType: "application/json", retryAfter: "", body: JSON.stringify(body), mayBeSecond: false };
}
