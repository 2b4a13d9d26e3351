/** IPAMHandle (I§2.5). */

import { type Fields, field, has, isNumber, mapOf, text } from "../../../json/decode.ts";
import type { Handle } from "../../resources.ts";
import { nameOfHandle } from "../names.ts";
import { type Codec, named } from "./codec.ts";

export const handleCodec: Codec<string, Handle> = {
  ...named("IPAMHandle", "ipamhandles"),
  members: new Set(["block", "deleted", "handleID"]),
  nameOf: nameOfHandle,
  // The object's name is the id in lower case: what is left of it where the spec has none.
  decode: ({ metadata, spec }) => ({ id: untilCarriageReturn(text(spec, "handleID")) || metadata.name, blocks: handleCounts(spec) }),
  encode: ({ id, blocks }) => ({ block: blocks, deleted: false, handleID: id }),
};

const isCounts = mapOf(isNumber);

/** Blocks and how many of their addresses a handle holds. @throws Error when that is no map of numbers */
export function handleCounts(spec: Fields): Readonly<Record<string, number>> {
  if (!has(spec, "block")) return {};
  const blocks = field(spec, "block", isCounts);
  for (const [cidr, count] of Object.entries(blocks)) {
    if (!Number.isSafeInteger(count) || count < 0) throw new Error(`block counts ${count} addresses of ${cidr}`);
  }
  return blocks;
}

/** Old migrations stored ids with a carriage return and more behind it (I§2.5). */
export function untilCarriageReturn(id: string): string {
  const end = id.indexOf("\r");
  return end < 0 ? id : id.slice(0, end);
}
