/**
 * Decodes and encodes IPAMBlock (I§2.4). What choosing a block needs is decoded at once, the record of every address at first use: a list
 * of all blocks costs little then, and one damaged block does not spoil it.
 */
import { type Address, addressAt, bitsOf, type Prefix, parsePrefix } from "../../addresses/address.ts";
import { type Fields, field, has, isNumber, listOf, mapOf, objects, section, text, texts } from "../../json/decode.ts";
import type { Selection } from "../../kubernetes/watch/kubernetes-feed.ts";
import { type AllocationAttribute, type Block, type BlockOwner, type Handle, sanitised } from "../resources.ts";
import { type ApiGroup, type Codec, damaged, isMarked, named, nameOfBlock, nameOfHandle, resourceOf, type Spec } from "./codec.ts";

const KIND = "IPAMBlock";

export const blockCodec: Codec<string, Block> = {
  ...named(KIND, "ipamblocks"),
  members: new Set([
    "affinity",
    "affinityClaimTime",
    "allocations",
    "attributes",
    "cidr",
    "deleted",
    "sequenceNumber",
    "sequenceNumberForAllocation",
    "strictAffinity",
    "unallocated",
  ]),
  nameOf: nameOfBlock,
  prepare: quoteSequenceNumbers,
  decode: ({ metadata, spec }) => decodeBlock(spec, `${KIND}(${metadata.name})`),
  verify: verifyBlock,
  encode: encodeBlock,
};

/** An address of a block that is given to somebody. */
export interface WatchedAllocation {
  readonly address: Address;
  readonly node: string | undefined;
  readonly namespace: string | undefined;
  readonly pod: string | undefined;
  /** Of what is no pod: a tunnel's end. */
  readonly type: string | undefined;
}

/** A block as a watch has it: little of each address, since an agent keeps those of the whole cluster. */
export interface WatchedBlock {
  readonly cidr: Prefix;
  readonly affinity: BlockOwner | undefined;
  readonly allocated: readonly WatchedAllocation[];
}

/** Selects all blocks, for whoever watches them once for several readers. One that is marked as deleted is left out (I§2.4). */
export function blockSelection(group: ApiGroup): Selection<WatchedBlock | undefined> {
  return {
    name: "ipamblocks of all nodes",
    path: `/apis/${group}/${blockCodec.plural(group)}`,
    prepare: blockCodec.prepare,
    decode: (object) => (isMarked(object) ? undefined : watchedBlock(blockCodec.decode(resourceOf(object)))),
  };
}

/** Leaves out a block whose CIDR cannot be read. @throws DatastoreError `invalid` */
export function watchedBlock({ cidr: text, affinity, allocations, attributes }: Block): WatchedBlock | undefined {
  const cidr = parsePrefix(text);
  if (cidr === undefined) return undefined;
  const allocated: WatchedAllocation[] = [];
  for (const [ordinal, index] of allocations.entries()) {
    const owner = index === null ? undefined : attributes[index]?.activeOwner;
    if (owner === undefined) continue;
    const { node, namespace, pod, type } = owner;
    allocated.push({ address: addressAt(cidr, ordinal), node, namespace, pod, type });
  }
  return { cidr, affinity, allocated };
}

/** Looks at what `decodeBlock` leaves for later. @throws DatastoreError `invalid` */
export function verifyBlock(block: Block): void {
  void block.allocations;
}

const isNumbers = listOf(isNumber);
const isAllocations = listOf((value): value is number | null => value === null || typeof value === "number");

type Details = Pick<Block, "allocations" | "attributes" | "sequenceNumberForAllocation">;

/** @param what for messages: "IPAMBlock(10-40-0-8-29)" @throws Error saying what is wrong with the block */
export function decodeBlock(spec: Fields, what: string): Block {
  const refuse = (error: unknown): never => {
    throw damaged(what, error);
  };
  return lateBlock(spec, { details: () => spec, attribute: decodeAttribute, refuse });
}

/** What of a stored block is decoded at first use. */
interface LateParts {
  /** Holds `allocations`, `attributes` and `sequenceNumberForAllocation`. */
  readonly details: () => Fields;
  readonly attribute: (stored: Fields) => AllocationAttribute;
  /** Throws the error of details that turn out to be broken. */
  readonly refuse: (cause: unknown) => never;
}

/** @param head of the stored block, with the owner and the free ordinals @throws Error saying what is wrong with the head */
export function lateBlock(head: Fields, { details: read, attribute, refuse }: LateParts): Block {
  const cidr = text(head, "cidr");
  const size = sizeOf(cidr);
  const affinity = text(head, "affinity");
  const affinityClaimTime = text(head, "affinityClaimTime");
  let details: Details | undefined;
  const decoded = (): Details => {
    try {
      details ??= decodeDetails(read(), size, attribute);
      return details;
    } catch (error) {
      return refuse(error);
    }
  };
  // Getters of the object itself, so that a spread copies the values (a getter of a class would be left behind).
  return {
    cidr,
    ...(affinity === "" ? {} : { affinity: ownerOf(affinity) }),
    ...(affinityClaimTime === "" ? {} : { affinityClaimTime }),
    unallocated: unallocatedOf(head, size),
    sequenceNumber: sequenceNumber(head.sequenceNumber),
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

/** Counts the addresses of a block. @throws Error when it has more than 2^16, which no pool allows (I§2.7) */
function sizeOf(cidr: string): number {
  const prefix = parsePrefix(cidr);
  const bits = prefix === undefined ? Number.POSITIVE_INFINITY : bitsOf(prefix.address.family) - prefix.length;
  if (bits > 16) throw new Error(`cidr "${cidr}" is not that of a block`);
  return 2 ** bits;
}

function ownerOf(affinity: string): BlockOwner {
  const colon = affinity.indexOf(":");
  const type = affinity.slice(0, colon);
  if (type !== "host" && type !== "virtual") throw new Error(`affinity "${affinity}" has no known type`);
  return { type, name: affinity.slice(colon + 1) };
}

function unallocatedOf(spec: Fields, size: number): readonly number[] {
  if (!has(spec, "unallocated")) return [];
  const unallocated = field(spec, "unallocated", isNumbers);
  const wrong = unallocated.find((ordinal) => !isIndex(ordinal, size));
  if (wrong !== undefined) throw new Error(`unallocated holds ${wrong}, but the block has ${size} addresses`);
  return unallocated;
}

function decodeDetails(spec: Fields, size: number, attribute: LateParts["attribute"]): Details {
  const allocations = field(spec, "allocations", isAllocations);
  if (allocations.length !== size) throw new Error(`allocations has ${allocations.length} entries, but the block has ${size} addresses`);
  const attributes = objects(spec, "attributes").map(attribute);
  const wrong = allocations.find((index) => index !== null && !isIndex(index, attributes.length));
  if (wrong !== undefined) throw new Error(`allocations refers to attribute ${wrong} of ${attributes.length}`);
  return { allocations, attributes, sequenceNumberForAllocation: sequenceNumbers(spec) };
}

function decodeAttribute(stored: Fields): AllocationAttribute {
  const activeOwner = texts(stored, "secondary");
  const alternateOwner = texts(stored, "alternateOwnerAttrs");
  const releasedAt = text(stored, "releasedAt");
  return {
    ...(has(stored, "handle_id") ? { handleId: sanitised(text(stored, "handle_id")) } : {}),
    ...(isEmpty(activeOwner) ? {} : { activeOwner }),
    ...(isEmpty(alternateOwner) ? {} : { alternateOwner }),
    ...(releasedAt === "" ? {} : { releasedAt }),
  };
}

function sequenceNumbers(spec: Fields): Readonly<Record<number, bigint>> {
  const numbers: Record<number, bigint> = {};
  for (const [ordinal, number] of Object.entries(section(spec, "sequenceNumberForAllocation"))) {
    if (!/^\d+$/.test(ordinal)) throw new Error(`sequenceNumberForAllocation has an ordinal "${ordinal}"`);
    numbers[Number(ordinal)] = sequenceNumber(number);
  }
  return numbers;
}

/** Reads a number, or the text of one that JavaScript cannot hold; absent it is 0 (I§2.4). */
function sequenceNumber(value: unknown): bigint {
  if (value === undefined || value === null) return 0n;
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) return BigInt(value);
  if (typeof value === "string" && /^\d+$/.test(value)) return BigInt(value);
  throw new Error(`a sequence number is ${JSON.stringify(value)}`);
}

function isIndex(value: number, length: number): boolean {
  return Number.isInteger(value) && value >= 0 && value < length;
}

function isEmpty(map: object): boolean {
  return Object.keys(map).length === 0;
}

export function encodeBlock(block: Block): Spec {
  const { affinity } = block;
  return {
    affinity: affinity && `${affinity.type}:${affinity.name}`,
    affinityClaimTime: block.affinityClaimTime,
    allocations: block.allocations,
    attributes: block.attributes.map(encodeAttribute),
    cidr: block.cidr,
    deleted: false,
    sequenceNumber: integer(block.sequenceNumber),
    sequenceNumberForAllocation: encodeNumbers(block.sequenceNumberForAllocation),
    // Required by the schema, and never read (I§2.4).
    strictAffinity: false,
    unallocated: block.unallocated,
  };
}

function encodeAttribute({ handleId, activeOwner, alternateOwner, releasedAt }: AllocationAttribute): Spec {
  return {
    handle_id: handleId,
    secondary: activeOwner && !isEmpty(activeOwner) ? activeOwner : undefined,
    alternateOwnerAttrs: alternateOwner && !isEmpty(alternateOwner) ? alternateOwner : undefined,
    releasedAt,
  };
}

function encodeNumbers(numbers: Readonly<Record<number, bigint>>): Spec {
  const encoded: Record<string, object> = {};
  for (const [ordinal, number] of Object.entries(numbers)) encoded[ordinal] = integer(number);
  return encoded;
}

/**
 * A member named `sequenceNumber` or by an ordinal, with an integer of 16 digits or more. A quote that stands between such a name and a
 * colon ends a key: inside a text it would have a backslash before it.
 */
const LONG_NUMBER = /"(sequenceNumber|\d{1,5})":\s*(\d{16,})(?=\s*[,}])/g;

/** Rewrites the JSON text of blocks so that long sequence numbers become texts, whose digits JSON.parse keeps. */
export function quoteSequenceNumbers(json: string): string {
  return json.replace(LONG_NUMBER, '"$1":"$2"');
}

declare global {
  interface JSON {
    /** Makes a value that JSON.stringify prints as it stands (ECMAScript proposal "JSON.parse source text access"). */
    rawJSON(text: string): object;
  }
}

/** Makes a value that JSON.stringify prints as an integer with all its digits. */
function integer(value: bigint): object {
  return JSON.rawJSON(String(value));
}

/** IPAMHandle (I§2.5). */
export const handleCodec: Codec<string, Handle> = {
  ...named("IPAMHandle", "ipamhandles"),
  members: new Set(["block", "deleted", "handleID"]),
  nameOf: nameOfHandle,
  // The object's name is the id in lower case: what is left of it where the spec has none.
  decode: ({ metadata, spec }) => ({ id: sanitised(text(spec, "handleID")) || metadata.name, blocks: handleCounts(spec) }),
  encode: ({ id, blocks }) => ({ block: blocks, deleted: false, handleID: id }),
};

const isCounts = mapOf(isNumber);

/** Blocks and how many of their addresses a handle holds. @throws Error when that is not a map of numbers */
export function handleCounts(spec: Fields): Readonly<Record<string, number>> {
  if (!has(spec, "block")) return {};
  const blocks = field(spec, "block", isCounts);
  for (const [cidr, count] of Object.entries(blocks)) {
    if (!Number.isSafeInteger(count) || count < 0) throw new Error(`block counts ${count} addresses of ${cidr}`);
  }
  return blocks;
}
