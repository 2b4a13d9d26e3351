/** Lists of any length, in pages, as of one moment (Kubernetes API concepts, "Retrieving large results sets in chunks"). */
import { type Fields, objects, parseObject, section, text } from "../json/decode.ts";

/** Calico's page size (I§2.1). */
const PAGE = 500;

/** Which objects of a collection, in the API's own language; absent for all. */
export interface Selectors {
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

export interface Page {
  readonly items: readonly Fields[];
  /** Empty on the last page. */
  readonly next: string;
  /** The list's resourceVersion. */
  readonly version: string;
}

/** @returns the terms of a query, of which there may be none */
export function selectorTerms({ labelSelector = "", fieldSelector = "" }: Selectors): readonly string[] {
  const terms = Object.entries({ labelSelector, fieldSelector }).filter(([, selector]) => selector !== "");
  return terms.map(([name, selector]) => `${name}=${encodeURIComponent(selector)}`);
}

/**
 * The pages of a list, in the order of namespaces and names.
 *
 * @param ask sends a GET with this query, which begins with "?"
 * @param mayBeOld the server answers from its memory at once; otherwise that memory must first have seen every write to etcd, of any kind:
 * up to 100 ms (KEP-2340)
 * @throws what `ask` throws
 */
export async function* pagesOf(ask: (query: string) => Promise<Page>, selectors: Selectors, mayBeOld: boolean): AsyncGenerator<Page> {
  const query = `?${[...selectorTerms(selectors), mayBeOld ? "resourceVersion=0" : `limit=${PAGE}`].join("&")}`;
  for (let next: string | undefined; next !== ""; ) {
    const page = await ask(next === undefined ? query : `${query}&continue=${encodeURIComponent(next)}`);
    yield page;
    next = page.next;
  }
}

/** @throws Error when the text is no list */
export function parsePage(json: string): Page {
  const page = parseObject(json);
  const metadata = section(page, "metadata");
  return { items: objects(page, "items"), next: text(metadata, "continue"), version: text(metadata, "resourceVersion") };
}
