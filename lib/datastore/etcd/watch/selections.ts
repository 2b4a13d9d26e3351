/** What is watched of a kind in etcd, decoded as its collection decodes it. */
import type { Watched } from "../../kubernetes/selections.ts";
import { type EtcdCodec, parseStored } from "../codec.ts";
import type { KeySelection } from "./etcd-feed.ts";

/**
 * @param prefix of the keys; with `only` they are that one key
 * @param nameOf what a cache calls the object of a key
 */
export function etcdSelection<K, T>(codec: EtcdCodec<K, T>, prefix: string, nameOf: KeySelection<T>["nameOf"]): KeySelection<Watched<T>> {
  return {
    name: `${codec.title} below ${prefix}`,
    prefix,
    nameOf,
    decode(pair, name) {
      const { value } = parseStored(codec, pair);
      codec.verify?.(value);
      return { name, stored: { value, revision: pair.modRevision }, isMarked: false };
    },
  };
}

/** All objects of a kind, by the rest of their keys. */
export function allBelow(prefix: string): (key: string) => string | undefined {
  return (key) => (key.startsWith(prefix) && key.slice(prefix.length)) || undefined;
}

/** The one object of a key, whatever else begins alike. */
export function only(wanted: string, name: string): (key: string) => string | undefined {
  return (key) => (key === wanted ? name : undefined);
}
