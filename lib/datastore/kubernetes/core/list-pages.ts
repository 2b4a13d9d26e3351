/** Lists of any length, in pages, as of one moment. */

import { messageOf } from "../../../errors/errors.ts";
import { type Fields, objects, section, text } from "../../../json/decode.ts";
import { DatastoreError } from "../../errors.ts";
import { hasStatus } from "../as-datastore-error.ts";
import { parseKubernetesObject } from "./metadata.ts";

/** Calico's page size (I§2.1). */
const PAGE = 500;
/** A list whose pages took longer than etcd keeps old revisions is read anew. */
const MOST_ATTEMPTS = 3;
const EXPIRED = 410;

/** Which objects of a kind, and how they may be answered. */
export interface Selection {
  readonly selector?: string;
  readonly fieldSelector?: string;
  readonly mayBeOld?: boolean;
}

/**
 * Every object of a list, in the order of namespaces and names.
 *
 * @param ask sends a GET with this query, which begins with "?", and gives the text of the page
 * @param selection `selector` of labels and `fieldSelector`, in the API's own language; absent for all. `mayBeOld`: the server answers from
 * its memory at once; otherwise that memory must first have seen every write to etcd, of whatever kind: up to 100 ms (KEP-2340)
 * @throws DatastoreError `invalid` when a page is no list; what `ask` throws
 */
export async function listPages(ask: (query: string) => Promise<string>, selection: Selection = {}): Promise<readonly Fields[]> {
  const { selector = "", fieldSelector = "", mayBeOld = false } = selection;
  const labels = selector === "" ? "" : `labelSelector=${encodeURIComponent(selector)}&`;
  const fields = fieldSelector === "" ? "" : `fieldSelector=${encodeURIComponent(fieldSelector)}&`;
  const query = `?${labels}${fields}${mayBeOld ? "resourceVersion=0" : `limit=${PAGE}`}`;
  for (let attempt = 1; ; attempt++) {
    try {
      return await readPages(ask, query);
    } catch (error) {
      if (!hasStatus(error, EXPIRED) || attempt === MOST_ATTEMPTS) throw error;
    }
  }
}

async function readPages(ask: (query: string) => Promise<string>, query: string): Promise<readonly Fields[]> {
  const found: Fields[] = [];
  let next = "";
  do {
    const page = parsePage(await ask(next === "" ? query : `${query}&continue=${encodeURIComponent(next)}`));
    for (const item of page.items) found.push(item);
    next = page.next;
  } while (next !== "");
  return found;
}

function parsePage(answer: string): { readonly items: readonly Fields[]; readonly next: string } {
  try {
    const page = parseKubernetesObject(answer);
    return { items: objects(page, "items"), next: text(section(page, "metadata"), "continue") };
  } catch (error) {
    throw new DatastoreError("invalid", `the server's list cannot be read: ${messageOf(error)}`, error);
  }
}
