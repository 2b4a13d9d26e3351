/** etcd as a map of texts: reads, prefixes, and writes that compare revisions in the transaction that carries them out. */

import { flag, objects, section, text } from "../../json/decode.ts";
import { type EtcdClient, type KeyValue, pairsOf, revisionOf, toBase64 } from "./client/etcd-client.ts";
import { isCompacted } from "./client/etcd-error.ts";

export type { KeyValue } from "./client/etcd-client.ts";

const RANGE = "/v3/kv/range";
const TXN = "/v3/kv/txn";

/** Pairs a page: a block of 64 addresses has some 10 KiB, and a member answers no more than 2 GiB. */
const PAGE = "500";
/** A list whose pages took longer than etcd keeps old revisions is read anew. */
const MOST_ATTEMPTS = 3;
/** Below etcd's own limit of operations in a transaction (--max-txn-ops, 128). */
const MOST_OPERATIONS = 100;

/** What a write with a comparison came to. */
export type Outcome =
  | { readonly isDone: true; readonly modRevision: string }
  /** `there`: what the key holds instead. */
  | { readonly isDone: false; readonly there: KeyValue | undefined; readonly isRepetition: boolean };

export interface Snapshot {
  readonly pairs: readonly KeyValue[];
  readonly revision: string;
}

interface Comparison {
  readonly target: "CREATE" | "MOD";
  readonly key: string;
  readonly createRevision?: string;
  readonly modRevision?: string;
}

/** All throw EtcdError. */
export class KeyValueStore {
  readonly #client: EtcdClient;

  constructor(client: EtcdClient) {
    this.#client = client;
  }

  async get(key: string): Promise<KeyValue | undefined> {
    const { json } = await this.#client.ask(RANGE, { key: toBase64(key) });
    return pairsOf(json)[0];
  }

  /** Those of the keys that are there, as of one moment for each hundred. */
  async getAll(keys: readonly string[]): Promise<readonly KeyValue[]> {
    const found: KeyValue[] = [];
    for (let from = 0; from < keys.length; from += MOST_OPERATIONS) {
      const success = keys.slice(from, from + MOST_OPERATIONS).map((key) => ({ requestRange: { key: toBase64(key) } }));
      const { json } = await this.#client.ask(TXN, { success });
      for (const answer of objects(json, "responses")) found.push(...pairsOf(section(answer, "response_range")));
    }
    return found;
  }

  /** Every pair whose key begins with `prefix`, in key order, as of one moment. */
  async list(prefix: string): Promise<readonly KeyValue[]> {
    return (await this.listAt(prefix)).pairs;
  }

  /** As `list`, with the revision of that moment. */
  async listAt(prefix: string): Promise<Snapshot> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#readPages(prefix);
      } catch (error) {
        if (!isCompacted(error) || attempt === MOST_ATTEMPTS) throw error;
      }
    }
  }

  /** Writes the key if nobody has made it. */
  create(key: string, value: string): Promise<Outcome> {
    return this.#writeIf(
      { target: "CREATE", key: toBase64(key), createRevision: "0" },
      { requestPut: { key: toBase64(key), value: toBase64(value) } },
    );
  }

  /** Writes the key if it still is at this revision. */
  update(key: string, value: string, modRevision: string): Promise<Outcome> {
    return this.#writeIf(
      { target: "MOD", key: toBase64(key), modRevision },
      { requestPut: { key: toBase64(key), value: toBase64(value) } },
    );
  }

  delete(key: string, modRevision: string): Promise<Outcome> {
    return this.#writeIf({ target: "MOD", key: toBase64(key), modRevision }, { requestDeleteRange: { key: toBase64(key) } });
  }

  async #writeIf(compare: Comparison, write: object): Promise<Outcome> {
    const request = { compare: [{ result: "EQUAL", ...compare }], success: [write], failure: [{ requestRange: { key: compare.key } }] };
    const { json, isRepetition } = await this.#client.ask(TXN, request);
    if (flag(json, "succeeded")) return { isDone: true, modRevision: revisionOf(json) };
    const [answer = {}] = objects(json, "responses");
    return { isDone: false, there: pairsOf(section(answer, "response_range"))[0], isRepetition };
  }

  async #readPages(prefix: string): Promise<Snapshot> {
    const found: KeyValue[] = [];
    let revision: string | undefined;
    let key = toBase64(prefix);
    for (;;) {
      const { json } = await this.#client.ask(RANGE, { key, range_end: endOf(prefix), limit: PAGE, revision });
      found.push(...pairsOf(json));
      const last = objects(json, "kvs").at(-1);
      revision ??= revisionOf(json);
      if (!flag(json, "more") || last === undefined) return { pairs: found, revision };
      key = keyAfter(text(last, "key"));
    }
  }
}

/**
 * The first key behind all that begin with `prefix`, in base64; prefixes here are ASCII and end with a letter or a slash.
 */
export function endOf(prefix: string): string {
  const bytes = new TextEncoder().encode(prefix);
  const last = bytes.length - 1;
  bytes[last] = (bytes[last] ?? 0) + 1;
  return bytes.toBase64();
}

/** Of bytes in base64: other clients' keys need not be texts. */
function keyAfter(key: string): string {
  return Uint8Array.of(...Uint8Array.fromBase64(key), 0).toBase64();
}
