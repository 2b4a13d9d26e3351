/** Decodes and encodes BlockAffinity (I§2.3). */

import { type Fields, text } from "../../json/decode.ts";
import type { AffinityKey } from "../datastore.ts";
import type { AffinityState, BlockAffinity, BlockOwner } from "../resources.ts";
import { type Codec, LEGACY_GROUP, named, nameOfAffinity, type Resource } from "./codec.ts";

export const affinityCodec: Codec<AffinityKey, BlockAffinity> = {
  ...named("BlockAffinity", "blockaffinities"),
  members: new Set(["cidr", "deleted", "node", "state", "type"]),
  nameOf: nameOfAffinity,
  decode,
  encode: ({ owner, cidr, state }, group) => ({
    cidr,
    // A text in the one group, a boolean in the other (I§2.1).
    deleted: group === LEGACY_GROUP ? "false" : false,
    node: owner.name,
    state,
    type: owner.type,
  }),
  labels: labelsOf,
};

/** Rows without a state are from before there were states. */
const STATES: ReadonlyMap<string, AffinityState> = new Map([
  ["", "confirmed"],
  ["confirmed", "confirmed"],
  ["pending", "pending"],
  ["pendingDeletion", "pendingDeletion"],
]);

function decode({ metadata, spec }: Resource): BlockAffinity {
  const type = text(spec, "type") || "host";
  if (type !== "host" && type !== "virtual") throw new Error(`type "${type}" is not known`);
  const state = affinityStateOf(spec);
  const row = { owner: { type, name: text(spec, "node") }, cidr: text(spec, "cidr") } as const;
  if (row.owner.name === "" || row.cidr === "") throw new Error("node or cidr is missing");
  const labelled = Object.entries(labelsOf(row)).every(([label, value]) => metadata.labels[label] === value);
  return { ...row, state, labelled };
}

/** @throws Error when the word is not known */
export function affinityStateOf(stored: Fields): AffinityState {
  const state = STATES.get(text(stored, "state"));
  if (state === undefined) throw new Error(`state "${text(stored, "state")}" is not known`);
  return state;
}

function labelsOf({ owner, cidr }: AffinityKey): Readonly<Record<string, string>> {
  return affinityLabels(owner, cidr.includes(":") ? 6 : 4);
}

const HOSTNAME_HASH = "projectcalico.org/hostname-hash";
const AFFINITY_TYPE = "projectcalico.org/affinity-type";
const IP_VERSION = "projectcalico.org/ip-version";

function affinityLabels(owner: BlockOwner, family: 4 | 6): Readonly<Record<string, string>> {
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

/** Encodes by RFC 4648, section 6, without padding. */
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
