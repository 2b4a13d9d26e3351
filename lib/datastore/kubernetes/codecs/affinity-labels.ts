/** The labels by which a node finds its blocks with one LIST (I§2.3). */
import type { BlockOwner } from "../../datastore.ts";

const HOSTNAME_HASH = "projectcalico.org/hostname-hash";
const AFFINITY_TYPE = "projectcalico.org/affinity-type";
const IP_VERSION = "projectcalico.org/ip-version";

export function affinityLabels(owner: BlockOwner, family: 4 | 6): Readonly<Record<string, string>> {
  return { [AFFINITY_TYPE]: owner.type, [HOSTNAME_HASH]: hostnameHash(owner.name), [IP_VERSION]: String(family) };
}

/** Selects the rows with all labels of an owner and family. */
export function affinitySelector(owner: BlockOwner, family: 4 | 6): string {
  const labels = Object.entries(affinityLabels(owner, family));
  return labels.map(([label, value]) => `${label}=${value}`).join(",");
}

/** Selects the rows from before there were labels (I§1.8). */
export const UNLABELLED_SELECTOR = `!${AFFINITY_TYPE}`;

/** Node names may be longer than the 63 characters of a label's value, so that their digest stands there. */
function hostnameHash(name: string): string {
  return base32(new Bun.CryptoHasher("sha3-256").update(name).digest());
}

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/** RFC 4648, section 6, without padding. */
function base32(bytes: Uint8Array): string {
  let text = "";
  let bits = 0;
  let pending = 0;
  for (const byte of bytes) {
    pending = (pending << 8) | byte;
    bits += 8;
    for (; bits >= 5; bits -= 5) text += ALPHABET[(pending >> (bits - 5)) & 31];
    pending &= (1 << bits) - 1;
  }
  return bits === 0 ? text : text + ALPHABET[(pending << (5 - bits)) & 31];
}
