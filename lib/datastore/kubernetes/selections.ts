/** What is watched of a kind (lib/kubernetes/watch), decoded as the datastore's driver decodes it. */
import type { Fields } from "../../json/decode.ts";
import { metadataOf, revisionOf } from "../../kubernetes/objects.ts";
import type { Selection } from "../../kubernetes/watch/kubernetes-feed.ts";
import { type Codec, isMarked, resourceOf } from "../calico/codec.ts";
import type { ApiGroup } from "../calico/group.ts";
import type { Versioned } from "../datastore.ts";

/** One object as a watch has it. */
export interface Watched<T> {
  readonly name: string;
  readonly stored: Versioned<T>;
  /** Its deletion has been begun by another client (I§2.10): it counts as absent. */
  readonly isMarked: boolean;
}

/** All objects of one kind of Calico's. */
export function resourceSelection<K, T>(codec: Codec<K, T>, group: ApiGroup): Selection<Watched<T>> {
  return {
    name: codec.plural(group),
    path: `/apis/${group}/${codec.plural(group)}`,
    prepare: codec.prepare,
    decode: (object) =>
      watched(object, (fields) => {
        const value = codec.decode(resourceOf(fields));
        codec.verify?.(value);
        return value;
      }),
  };
}

/** All objects of one of Kubernetes' own kinds. */
export function coreSelection<T>(plural: string, decode: (object: Fields) => T): Selection<Watched<T>> {
  return { name: plural, path: `/api/v1/${plural}`, decode: (object) => watched(object, decode) };
}

function watched<T>(object: Fields, decode: (object: Fields) => T): Watched<T> {
  const metadata = metadataOf(object);
  const stored: Versioned<T> = { value: decode(object), revision: revisionOf(metadata) };
  return { name: metadata.name, stored, isMarked: isMarked(object) };
}
