/** Uses etcd as a map of texts: reads, prefixes, and writes that compare revisions in the transaction that carries them out. */

import { type Fields, flag, objects, text } from "../../json/decode.ts";
import { type Decision, decisionOf, isCompacted, type KeyValue, pairsOf, revisionOf, toBase64 } from "./answers.ts";
import type { EtcdClient } from "./etcd-client.ts";

const RANGE = "/v3/kv/range";
const TXN = "/v3/kv/txn";

/** Pairs a page: a block of 64 addresses has some 10 KiB, and a member answers no more than 2 GiB. */
const PAGE = "500";
/** A list whose pages took longer than etcd keeps old revisions is read again. */
const MOST_ATTEMPTS = 3;

/** What a write with a comparison came to. */
export interface Outcome extends Decision {
  /** An earlier try got no answer, and may have been carried out. */
  readonly isRepetition: boolean;
}

export interface Page {
  readonly pairs: readonly KeyValue[];
  readonly revision: string;
}

type Comparison = { readonly target: "CREATE"; readonly createRevision: "0" } | { readonly target: "MOD"; readonly modRevision: string };

/** Reads and writes texts. Every method throws EtcdError. */
export class KeyValueStore {
  readonly #client: Pick<EtcdClient, "ask">;

  constructor(client: Pick<EtcdClient, "ask">) {
    this.#client = client;
  }

  async get(key: string): Promise<KeyValue | undefined> {
    const read = (answer: Fields) => {
      revisionOf(answer);
      return pairsOf(answer, (there) => there === key)[0];
    };
    return (await this.#client.ask(RANGE, { key: toBase64(key) }, read)).value;
  }

  /** Lists every pair whose key begins with `prefix`, in key order, as of one moment. */
  async list(prefix: string): Promise<readonly KeyValue[]> {
    for (let attempt = 1; ; attempt++) {
      try {
        const found: KeyValue[] = [];
        for await (const { pairs } of this.pages(prefix)) found.push(...pairs);
        return found;
      } catch (error) {
        if (!isCompacted(error) || attempt === MOST_ATTEMPTS) throw error;
      }
    }
  }

  /** Does as `list`, a page after the other, each with the revision of that moment. @throws EtcdError too when etcd no longer keeps it */
  async *pages(prefix: string): AsyncGenerator<Page> {
    let revision: string | undefined;
    let key = toBase64(prefix);
    for (;;) {
      const first = key;
      const read = (answer: Fields) => ({ pairs: pairsOf(answer, (there) => there.startsWith(prefix)), ...pageOf(answer, first) });
      const { value } = await this.#client.ask(RANGE, { key, range_end: endOf(prefix), limit: PAGE, revision }, read);
      revision ??= value.revision;
      yield { pairs: value.pairs, revision };
      if (value.next === undefined) return;
      key = value.next;
    }
  }

  /** Writes the key if it does not exist. */
  create(key: string, value: string): Promise<Outcome> {
    return this.#writeIf(key, { target: "CREATE", createRevision: "0" }, putOf(key, value));
  }

  /** Writes the key if it still is at this revision. */
  update(key: string, value: string, modRevision: string): Promise<Outcome> {
    return this.#writeIf(key, { target: "MOD", modRevision }, putOf(key, value));
  }

  delete(key: string, modRevision: string): Promise<Outcome> {
    return this.#writeIf(key, { target: "MOD", modRevision }, { requestDeleteRange: { key: toBase64(key) } });
  }

  async #writeIf(key: string, comparison: Comparison, write: object): Promise<Outcome> {
    const where = { key: toBase64(key) };
    const request = { compare: [{ result: "EQUAL", ...where, ...comparison }], success: [write], failure: [{ requestRange: where }] };
    const { value, isRepetition } = await this.#client.ask(TXN, request, (answer) => decisionOf(answer, key));
    return { ...value, isRepetition };
  }
}

function putOf(key: string, value: string): object {
  return { requestPut: { key: toBase64(key), value: toBase64(value) } };
}

/** Says as of which revision a page is, and the key that the next one begins with, in base64; the last page has no next key. */
function pageOf(answer: Fields, first: string): { readonly revision: string; readonly next: string | undefined } {
  const revision = revisionOf(answer);
  const last = objects(answer, "kvs").at(-1);
  if (!flag(answer, "more") || last === undefined) return { revision, next: undefined };
  const next = keyAfter(text(last, "key"));
  if (isBehind(first, next)) return { revision, next };
  throw new Error("it has more, and nothing of what was asked for");
}

/** Finds the first key behind all that begin with `prefix`; prefixes here are ASCII and end with a letter or a slash. */
export function endOf(prefix: string): string {
  const bytes = new TextEncoder().encode(prefix);
  const last = bytes.length - 1;
  bytes[last] = (bytes[last] ?? 0) + 1;
  return bytes.toBase64();
}

/** Takes bytes in base64: other clients' keys need not be texts. */
function keyAfter(key: string): string {
  return Uint8Array.of(...Uint8Array.fromBase64(key), 0).toBase64();
}

/** Tells whether the second key of two in base64 comes later. */
function isBehind(first: string, second: string): boolean {
  return Buffer.compare(Uint8Array.fromBase64(first), Uint8Array.fromBase64(second)) < 0;
}
