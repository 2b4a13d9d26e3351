/** BlockAffinity (I§2.3). */

import { text } from "../../../json/decode.ts";
import type { AffinityKey } from "../../datastore.ts";
import type { AffinityState, BlockAffinity } from "../../resources.ts";
import { LEGACY_GROUP } from "../group.ts";
import { nameOfAffinity } from "../names.ts";
import { affinityLabels } from "./affinity-labels.ts";
import { type Codec, named, type Resource } from "./codec.ts";

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
  const state = STATES.get(text(spec, "state"));
  if (state === undefined) throw new Error(`state "${text(spec, "state")}" is not known`);
  const row = { owner: { type, name: text(spec, "node") }, cidr: text(spec, "cidr") } as const;
  if (row.owner.name === "" || row.cidr === "") throw new Error("node or cidr is missing");
  const labelled = Object.entries(labelsOf(row)).every(([label, value]) => metadata.labels[label] === value);
  return { ...row, state, labelled };
}

function labelsOf({ owner, cidr }: AffinityKey): Readonly<Record<string, string>> {
  return affinityLabels(owner, cidr.includes(":") ? 6 : 4);
}
