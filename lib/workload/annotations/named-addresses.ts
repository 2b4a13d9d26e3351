/**
 * The addresses that texts of a pod name. Whoever may patch a pod writes its annotations, up to 256 KiB of them, so the search is bounded in
 * characters and in addresses. What it leaves out may name anything: `isWhole` says that nothing was left out.
 */
import { type Address, parseAddress } from "../../addresses/address.ts";

/** Of all texts of one pod together: a hundred entries of Multus' network status. Searching them takes about a millisecond. */
const MOST_CHARACTERS = 32 * 1024;
/** Of one pod. */
const MOST_ADDRESSES = 64;
/** The longest address: an IPv6 one whose last 32 bits are in decimal. */
const LONGEST = 45;

const WORD = /[0-9A-Fa-f:.]+/g;

export interface NamedAddresses {
  /** Each once. */
  readonly addresses: readonly Address[];
  readonly isWhole: boolean;
}

/** @param texts of one pod, those that matter most first */
export function namedAddresses(texts: readonly string[]): NamedAddresses {
  const found = new Map<string, Address>();
  let left = MOST_CHARACTERS;
  for (const text of texts) {
    for (const [word] of cutTo(left, text).matchAll(WORD)) {
      const address = word.length > LONGEST ? undefined : parseAddress(word);
      if (address === undefined) continue;
      const key = `${address.family}:${address.value}`;
      if (found.size === MOST_ADDRESSES && !found.has(key)) return { addresses: [...found.values()], isWhole: false };
      found.set(key, address);
    }
    left -= text.length;
    if (left < 0) return { addresses: [...found.values()], isWhole: false };
  }
  return { addresses: [...found.values()], isWhole: true };
}

export interface ListedAddresses {
  readonly elements: readonly string[];
  readonly isWhole: boolean;
}

/** The elements of an annotation that lists addresses, within the same bounds: a plugin writes one or two. */
export function listedAddresses(text: string): ListedAddresses {
  const elements = text.slice(0, MOST_CHARACTERS).split(",", MOST_ADDRESSES + 1);
  return { elements: elements.slice(0, MOST_ADDRESSES), isWhole: text.length <= MOST_CHARACTERS && elements.length <= MOST_ADDRESSES };
}

/** Without the word that the cut goes through: half an address may be another one. */
function cutTo(length: number, text: string): string {
  return text.length <= length ? text : text.slice(0, length).replace(/[0-9A-Fa-f:.]+$/, "");
}
