/** Names of Calico's IPAM objects in Kubernetes (I§2.2). The encoding is frozen: another one would not find what is stored. */
import { isSubdomain } from "../../system/subdomain.ts";
import type { AffinityKey } from "../datastore.ts";
import { cidrKey } from "../resources.ts";

/** From this length on a name is shortened and told apart by a digest (apimachinery allows 253). */
const TOO_LONG = 253;
const DIGEST_DIGITS = 11;

/** The key's name, or `undefined` when no object can have it. */
export type NameOf<K> = (key: K) => string | undefined;

export const nameOfObject: NameOf<string> = (name) => (isSubdomain(name) ? name : undefined);

export const nameOfBlock: NameOf<string> = (cidr) => nameOfObject(cidrKey(cidr));

/** The handle's id, which keeps its case in the object (I§2.5). */
export const nameOfHandle: NameOf<string> = (id) => nameOfObject(id.toLowerCase());

export const nameOfAffinity: NameOf<AffinityKey> = ({ owner, cidr }) => {
  const block = cidrKey(cidr);
  const name = `${owner.name}-${block}`;
  if (name.length < TOO_LONG) return nameOfObject(name);
  const digest = new Bun.CryptoHasher("sha256").update(`${owner.name}+${block}`).digest("hex").slice(0, DIGEST_DIGITS);
  // 252, less the block's name and two separators with the digest.
  const host = owner.name.slice(0, TOO_LONG - 1 - block.length - DIGEST_DIGITS - 2);
  return nameOfObject(`${host}-${block}-${digest}`);
};
