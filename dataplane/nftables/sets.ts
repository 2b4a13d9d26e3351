/**
 * Encodes and reads sets and verdict maps of nf_tables (include/uapi/linux/netfilter/nf_tables.h). A key can have several fields, each
 * padded to four bytes.
 */
import { type Attribute, aligned, bytes, type Message, nest, readU32be, u32be, u64be } from "../netlink/message.ts";
import type { Request } from "../netlink/socket.ts";
import { about, attributesOf, type TableFamily } from "./message.ts";

const NFTA_SET_FLAGS = 3;
const NFTA_SET_KEY_TYPE = 4;
const NFTA_SET_KEY_LEN = 5;
const NFTA_SET_DATA_TYPE = 6;
const NFTA_SET_DESC = 9;
const NFTA_SET_ID = 10;
const NFTA_SET_TIMEOUT = 11;
const NFTA_SET_USERDATA = 13;
/** Says to `nft` that the key is in the machine's order (libnftnl, udata.h: NFTNL_UDATA_SET_KEYBYTEORDER; nft, BYTEORDER_HOST_ENDIAN). */
const HOST_ORDER = Uint8Array.of(0, 4, 1, 0, 0, 0);
const NFTA_SET_DESC_SIZE = 1;
const NFT_SET_ANONYMOUS = 0x1;
const NFT_SET_MAP = 0x8;
const NFT_SET_TIMEOUT = 0x10;
const NFT_SET_EVAL = 0x20;
const NFT_DATA_VERDICT = 0xffffff00;
const TYPE_BITS = 6;

/** A field of a key: what `nft` calls its type, as a number of its own, and its length. */
export interface Field {
  readonly type: number;
  readonly bytes: number;
}

/** The types of `nft` (include/datatype.h). */
export const IFNAME: Field = { type: 41, bytes: 16 };
export const ADDRESS = { 4: { type: 7, bytes: 4 }, 6: { type: 8, bytes: 16 } } as const satisfies Record<4 | 6, Field>;
export const INET_PROTO: Field = { type: 12, bytes: 1 };
export const INET_SERVICE: Field = { type: 13, bytes: 2 };

export interface SetShape {
  readonly fields: readonly Field[];
  /** Each element has a verdict. */
  readonly isMap: boolean;
  /** Rules add the elements, which go when the time is over without another packet. */
  readonly filledByRules?: { readonly most: number; readonly seconds: number };
}

/** Length of a key in registers. */
function keyBytes({ fields }: SetShape): number {
  return fields.length === 1 ? (fields[0]?.bytes ?? 0) : fields.reduce((sum, field) => sum + aligned(field.bytes), 0);
}

export function newSet(family: TableFamily, table: string, name: string, shape: SetShape): Request {
  return about("new", "set", family, [table, name], definitionOf(shape));
}

function definitionOf(shape: SetShape): Attribute[] {
  const { fields, isMap, filledByRules } = shape;
  return [
    u32be(NFTA_SET_FLAGS, flagsOf(shape)),
    u32be(NFTA_SET_KEY_TYPE, keyType(shape)),
    u32be(NFTA_SET_KEY_LEN, keyBytes(shape)),
    // Required, although all of ours are found by their names.
    u32be(NFTA_SET_ID, 1),
    // Without it `nft` prints names of interfaces backwards, which look empty then.
    ...(fields.length === 1 && fields[0] === IFNAME ? [bytes(NFTA_SET_USERDATA, HOST_ORDER)] : []),
    ...(isMap ? [u32be(NFTA_SET_DATA_TYPE, NFT_DATA_VERDICT)] : []),
    ...(filledByRules === undefined
      ? []
      : [nest(NFTA_SET_DESC, [u32be(NFTA_SET_DESC_SIZE, filledByRules.most)]), u64be(NFTA_SET_TIMEOUT, filledByRules.seconds * 1000)]),
  ];
}

function flagsOf(shape: SetShape): number {
  return (shape.isMap ? NFT_SET_MAP : 0) | (shape.filledByRules === undefined ? 0 : NFT_SET_TIMEOUT | NFT_SET_EVAL);
}

function keyType({ fields }: SetShape): number {
  return fields.reduce((type, field) => (type << TYPE_BITS) | field.type, 0);
}

/** Tells whether a set of the kernel, from a dump, can hold what one of this shape holds. */
export function hasShape(set: Message, shape: SetShape): boolean {
  const attributes = attributesOf(set);
  const number = (type: number) => readU32be(attributes.get(type)) ?? 0;
  return (
    number(NFTA_SET_FLAGS) === flagsOf(shape) &&
    number(NFTA_SET_KEY_TYPE) === keyType(shape) &&
    number(NFTA_SET_KEY_LEN) === keyBytes(shape) &&
    number(NFTA_SET_DATA_TYPE) === (shape.isMap ? NFT_DATA_VERDICT : 0)
  );
}

/** Tells whether a set of the kernel belongs to one rule, which names none (`ip saddr { … }`). */
export function isAnonymous(set: Message): boolean {
  return ((readU32be(attributesOf(set).get(NFTA_SET_FLAGS)) ?? 0) & NFT_SET_ANONYMOUS) !== 0;
}

/** Writes bytes as a key. */
export function asKey(value: Uint8Array): string {
  return Buffer.from(value.buffer, value.byteOffset, value.length).toString("latin1");
}

/** Writes a name of an interface as a key. */
export function interfaceKey(name: string): string {
  return Buffer.from(name).toString("latin1").padEnd(IFNAME.bytes, "\0");
}
