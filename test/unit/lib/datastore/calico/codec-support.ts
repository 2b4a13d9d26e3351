/** Codecs as tests call them: wire objects in, wire objects out. */
import type { Codec, Resource } from "../../../../../lib/datastore/calico/codec.ts";
import { type ApiGroup, LEGACY_GROUP } from "../../../../../lib/datastore/calico/codec.ts";
import { metadataOf } from "../../../../../lib/kubernetes/objects.ts";

type Fields = Readonly<Record<string, unknown>>;

export function decodeSpec<T>(codec: Codec<never, T>, spec: Fields, metadata: Fields = {}, status: Fields = {}): T {
  const resource: Resource = { metadata: metadataOf({ metadata: { name: "object", ...metadata } }), spec, status };
  return codec.decode(resource);
}

/** The spec as it travels: `undefined` members are gone. */
export function encodeSpec<T>(codec: Codec<never, T>, value: T, group: ApiGroup = LEGACY_GROUP): unknown {
  return JSON.parse(JSON.stringify(codec.encode(value, group)));
}
