/** Keys of a network configuration that nobody reads: ADD passes over them, as Calico does, so a misspelled key is silently without effect. */
import { isJsonObject, type JsonObject, type JsonValue } from "../json/value.ts";
import { type Members, memberName } from "./codec.ts";
import { NETCONF } from "./schema.ts";

export interface UnknownKey {
  /** As written: "ipam.pools[0].blocksize". */
  readonly path: string;
  /** A known key that it resembles. */
  readonly suggestion: string | undefined;
}

/** What runtimes read and plugins do not; `_` begins comments. */
const OF_RUNTIMES = new Set(["capabilities"]);
/** Others may keep what they like in there (CNI specification, section 1; other IPAM plugins have keys of their own). */
const OPEN = new Set(["args", "runtimeConfig", "cni.dev/valid-attachments", "cni.dev/attachments"]);
const OWN_IPAM = new Set(["tortie-ipam", "calico-ipam", "tortie-host-scope"]);

/** @param netconf one plugin's configuration, of type tortie or calico */
export function unknownKeys(netconf: JsonObject): readonly UnknownKey[] {
  const isForeignIpam = isJsonObject(netconf.ipam) && !OWN_IPAM.has(String(netconf.ipam.type));
  return unknownIn(NETCONF, netconf, "", (key) => OPEN.has(key) || (key === "ipam" && isForeignIpam));
}

function unknownIn(members: Members, object: JsonObject, prefix: string, isOpen: (key: string) => boolean): readonly UnknownKey[] {
  return Object.entries(object).flatMap(([key, value]) => {
    const path = `${prefix}${key}`;
    const name = memberName(members, key);
    if (name === undefined) {
      if (prefix === "" && (OF_RUNTIMES.has(key) || key.startsWith("_"))) return [];
      return [{ path, suggestion: nearest(key, Object.keys(members)) }];
    }
    const inside = members[name]?.members;
    if (inside === undefined || (prefix === "" && isOpen(name))) return [];
    return objectsIn(value, path).flatMap(([inner, place]) => unknownIn(inside, inner, `${place}.`, () => false));
  });
}

function objectsIn(value: JsonValue, path: string): readonly (readonly [JsonObject, string])[] {
  if (isJsonObject(value)) return [[value, path]];
  if (!Array.isArray(value)) return [];
  return value.flatMap((item: JsonValue, index: number) => (isJsonObject(item) ? [[item, `${path}[${index}]`] as const] : []));
}

/** The known word with the fewest changes, a third of the letters at most. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  const folded = (text: string) => text.toLowerCase().replaceAll(/[-_]/g, "");
  let best: { readonly name: string; readonly distance: number } | undefined;
  for (const name of known) {
    const distance = changes(folded(word), folded(name));
    if (distance <= Math.max(1, Math.floor(name.length / 3)) && (best === undefined || distance < best.distance)) best = { name, distance };
  }
  return best?.name;
}

/** Levenshtein's distance: letters to insert, remove or replace. */
function changes(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let i = 1; i <= from.length; i++) {
    const next = [i];
    for (let j = 1; j <= to.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (from[i - 1] === to[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[to.length] ?? 0;
}
