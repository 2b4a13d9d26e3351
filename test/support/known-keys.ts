/** The keys of a network configuration, as the decoder's table has them: what pages and tests are compared with. */
import type { Members } from "../../lib/config/codec.ts";
import { NETCONF } from "../../lib/config/decode.ts";

interface KnownKey {
  /** "ipam.assign_ipv4"; a member of a list's elements is "ipam.pools[].cidr". */
  readonly path: string;
  /** The decoder's name of the type. */
  readonly type: string;
}

export function knownKeys(): readonly KnownKey[] {
  return keysOf(NETCONF, "");
}

function keysOf(members: Members, prefix: string): KnownKey[] {
  return Object.entries(members).flatMap(([key, codec]) => {
    const path = prefix + key;
    const inside = codec.type.startsWith("a list") ? `${path}[].` : `${path}.`;
    return [{ path, type: codec.type }, ...(codec.members === undefined ? [] : keysOf(codec.members, inside))];
  });
}
