/**
 * A block as two texts: what choosing a block needs (owner, free ordinals, sequence number), and the record of every address.
 * A list of blocks decodes the second text only of the blocks whose allocations are used.
 * Sequence numbers are decimal text, because they pass 2^53 (I§2.4); the names are those of Calico's objects.
 */

import { field, isNumber, isObject, isText, listOf, mapOf, optional, parseObject } from "../../json/decode.ts";
import type { AllocationAttribute, Block } from "../resources.ts";
import { hasRoom } from "../room.ts";
import { ownerPrefix } from "./codecs.ts";
import type { StoredText } from "./object-store.ts";

export function encodeBlock(block: Block): StoredText {
  return {
    value: JSON.stringify({
      cidr: block.cidr,
      affinity: block.affinity && `${block.affinity.type}:${block.affinity.name}`,
      affinityClaimTime: block.affinityClaimTime,
      unallocated: block.unallocated,
      sequenceNumber: String(block.sequenceNumber),
    }),
    detail: JSON.stringify({
      allocations: block.allocations,
      attributes: block.attributes.map(encodeAttribute),
      sequenceNumberForAllocation: asTexts(block.sequenceNumberForAllocation),
    }),
    room: hasRoom(block) && block.affinity !== undefined ? ownerPrefix(block.affinity, block.cidr.includes(":") ? 6 : 4) : null,
  };
}

function asTexts(numbers: Readonly<Record<number, bigint>>): Record<string, string> {
  const texts: Record<string, string> = {};
  for (const [ordinal, number] of Object.entries(numbers)) texts[ordinal] = String(number);
  return texts;
}

/**
 * @param refuse called when the text that is decoded late turns out to be broken
 * @throws Error when the first text is broken
 */
export function decodeBlock(text: Pick<StoredText, "value" | "detail">, refuse: (cause: unknown) => never): Block {
  const head = parseObject(text.value);
  const affinity = head.affinity === undefined ? {} : { affinity: decodeOwner(field(head, "affinity", isText)) };
  let details: BlockDetails | undefined;
  const decoded = (): BlockDetails => {
    try {
      details ??= decodeDetails(text.detail ?? "");
      return details;
    } catch (error) {
      return refuse(error);
    }
  };
  // Getters of the object itself, so that a spread copies the values (a getter of a class would be left behind).
  return {
    cidr: field(head, "cidr", isText),
    ...affinity,
    ...optional(head, "affinityClaimTime", isText),
    unallocated: field(head, "unallocated", isNumbers),
    sequenceNumber: BigInt(field(head, "sequenceNumber", isText)),
    get allocations() {
      return decoded().allocations;
    },
    get attributes() {
      return decoded().attributes;
    },
    get sequenceNumberForAllocation() {
      return decoded().sequenceNumberForAllocation;
    },
  };
}

type BlockDetails = Pick<Block, "allocations" | "attributes" | "sequenceNumberForAllocation">;

const isNumbers = listOf(isNumber);
const isTexts = mapOf(isText);
const isAllocations = listOf((value): value is number | null => value === null || typeof value === "number");
const isAttributes = listOf(isObject);

function decodeDetails(text: string): BlockDetails {
  const details = parseObject(text);
  const numbers: Record<number, bigint> = {};
  for (const [ordinal, number] of Object.entries(field(details, "sequenceNumberForAllocation", isTexts))) {
    numbers[Number(ordinal)] = BigInt(number);
  }
  return {
    allocations: field(details, "allocations", isAllocations),
    attributes: field(details, "attributes", isAttributes).map(decodeAttribute),
    sequenceNumberForAllocation: numbers,
  };
}

function encodeAttribute(attribute: AllocationAttribute): Record<string, unknown> {
  return {
    handle_id: attribute.handleId,
    secondary: attribute.activeOwner,
    alternateOwnerAttrs: attribute.alternateOwner,
    releasedAt: attribute.releasedAt,
  };
}

function decodeAttribute(stored: Readonly<Record<string, unknown>>): AllocationAttribute {
  const { handle_id, secondary, alternateOwnerAttrs, releasedAt } = stored;
  return {
    ...(handle_id === undefined ? {} : { handleId: field(stored, "handle_id", isText) }),
    ...(secondary === undefined ? {} : { activeOwner: field(stored, "secondary", isTexts) }),
    ...(alternateOwnerAttrs === undefined ? {} : { alternateOwner: field(stored, "alternateOwnerAttrs", isTexts) }),
    ...(releasedAt === undefined ? {} : { releasedAt: field(stored, "releasedAt", isText) }),
  };
}

function decodeOwner(text: string): { type: "host" | "virtual"; name: string } {
  const colon = text.indexOf(":");
  const type = text.slice(0, colon);
  if (type !== "host" && type !== "virtual") throw new Error(`affinity "${text}" has no known type`);
  return { type, name: text.slice(colon + 1) };
}
