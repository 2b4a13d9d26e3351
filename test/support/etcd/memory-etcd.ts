/**
 * One member of an etcd whose answers a test can bend: the part of the JSON gateway that our client uses, on a map in memory. The cluster
 * suite holds the same promises against etcd itself; here a member refuses, forgets and falls silent on demand.
 */
import { type EtcdDatastore, type EtcdOptions, etcdDatastore } from "../../../lib/datastore/etcd/etcd-datastore.ts";
import { type Fields, isObject, objects, parseObject, section, text } from "../../../lib/json/decode.ts";
import { TlsServer } from "../tls-server.ts";
import { settingsOf } from "./no-etcd.ts";

/** What is said instead of the truth. */
export interface Reply {
  readonly status: number;
  readonly body: string;
}

export interface Asked {
  readonly path: string;
  readonly request: Fields;
  readonly authorization: string | undefined;
}

interface Row {
  readonly value: string;
  readonly created: bigint;
  readonly modified: bigint;
}

const HASTY = { request: 5_000, least: 5_000, firstPause: 1, longestPause: 1 };

export class MemoryEtcd implements Disposable {
  /** Every request in the order of its coming, refused ones too. */
  readonly asked: Asked[] = [];
  /** Takes a request's place: `undefined` lets it through. It may keep the caller waiting. */
  intercept: (asked: Asked) => Reply | undefined | Promise<Reply | undefined> = () => undefined;
  readonly #server = new TlsServer(
    async ({ target, body, headers }) => {
      const asked = { path: target, request: body === "" ? {} : parseObject(body), authorization: headers.authorization };
      this.asked.push(asked);
      return (await this.intercept(asked)) ?? { status: 200, body: JSON.stringify(this.#answer(asked)) };
    },
    { keyPair: undefined },
  );
  readonly url = `http://127.0.0.1:${this.#server.port}`;
  /** By key, in base64. */
  readonly #rows = new Map<string, Row>();
  #revision = 1n;

  /** A client of its own, with little patience. @param others members that are asked too */
  datastore(options: EtcdOptions = {}, ...others: readonly string[]): EtcdDatastore {
    const settings = settingsOf([this.url, ...others].join(","));
    return etcdDatastore(settings, { random: () => 0, ...options, limits: { ...HASTY, ...options.limits } });
  }

  /** Writes behind everybody's back. */
  put(key: string, value: string): void {
    this.#put(btoa(key), btoa(value));
  }

  get(key: string): string | undefined {
    const row = this.#rows.get(btoa(key));
    return row && new TextDecoder().decode(Uint8Array.fromBase64(row.value));
  }

  /** How many requests of a kind came: "range", "txn". */
  count(kind: string): number {
    return this.asked.filter(({ path }) => path.endsWith(`/${kind}`)).length;
  }

  [Symbol.dispose](): void {
    this.#server[Symbol.dispose]();
  }

  #answer({ path, request }: Asked): object {
    if (path === "/v3/kv/range") return { header: this.#header(), ...this.#range(request) };
    if (path === "/v3/kv/txn") return this.#transaction(request);
    throw new Error(`nobody answers ${path}`);
  }

  #transaction(request: Fields): object {
    const isTrue = objects(request, "compare").every((compare) => {
      const row = this.#rows.get(text(compare, "key"));
      const [isCreate, is] = compare.target === "CREATE" ? [true, row?.created] : [false, row?.modified];
      return String(is ?? 0n) === text(compare, isCreate ? "createRevision" : "modRevision");
    });
    const responses = objects(request, isTrue ? "success" : "failure").map((operation) => this.#operate(operation));
    return { header: this.#header(), ...(isTrue && { succeeded: true }), responses };
  }

  #operate({ requestPut, requestDeleteRange, requestRange }: Fields): object {
    if (isObject(requestPut)) {
      this.#put(text(requestPut, "key"), text(requestPut, "value"));
      return { response_put: {} };
    }
    if (isObject(requestDeleteRange)) {
      this.#revision++;
      this.#rows.delete(text(requestDeleteRange, "key"));
      return { response_delete_range: {} };
    }
    return { response_range: this.#range(section({ requestRange }, "requestRange")) };
  }

  #range(request: Fields): object {
    const [from, end] = [text(request, "key"), text(request, "range_end")].map((key) => Buffer.from(key, "base64"));
    const limit = Number(text(request, "limit") || "0");
    const isAsked = (key: Buffer) =>
      from !== undefined && (end?.length ? Buffer.compare(key, from) >= 0 && Buffer.compare(key, end) < 0 : key.equals(from));
    const kvs = [...this.#rows]
      .map(([key, row]) => ({ key: Buffer.from(key, "base64"), row }))
      .filter(({ key }) => isAsked(key))
      .sort((one, other) => Buffer.compare(one.key, other.key))
      .map(({ key, row }) => ({ key: key.toString("base64"), value: row.value, mod_revision: String(row.modified) }));
    return limit > 0 && kvs.length > limit ? { kvs: kvs.slice(0, limit), more: true } : { kvs };
  }

  #put(key: string, value: string): void {
    this.#revision++;
    this.#rows.set(key, { value, created: this.#rows.get(key)?.created ?? this.#revision, modified: this.#revision });
  }

  #header(): object {
    return { revision: String(this.#revision) };
  }
}
