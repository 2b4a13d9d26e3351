/**
 * Encodes and decodes netlink messages, acknowledgements and attributes (include/uapi/linux/netlink.h, struct nlmsghdr, nlmsgerr and nlattr).
 * Numbers are in the machine's own order, which is little-endian on everything Bun runs on; those that are in network order say so.
 */

import { type Address, bitsOf, type Family } from "../../lib/addresses/address.ts";
import { errnoName, errnoText } from "../../lib/system/errno.ts";

export const ATTRIBUTE_HEADER = 4;
export const NLA_F_NESTED = 0x8000;
/** Leaves out NLA_F_NESTED and NLA_F_NET_BYTEORDER, which are not part of the type. */
export const NLA_TYPE_MASK = 0x3fff;
const MAX_LENGTH = 0xffff;
const UTF8 = new TextEncoder();

/** Has a 16 bit length, a 16 bit type, and a payload, padded to four bytes. */
export interface Attribute {
  readonly type: number;
  readonly payload: Uint8Array;
}

/** Reports bytes that cannot be what the kernel sends, or a request that does not fit into a message. */
export class NetlinkFormatError extends Error {
  override readonly name = "NetlinkFormatError";
}

export function bytes(type: number, payload: Uint8Array): Attribute {
  return { type, payload };
}

export function u8(type: number, value: number): Attribute {
  return { type, payload: new Uint8Array([value]) };
}

export function u32(type: number, value: number): Attribute {
  return { type, payload: words(4, (view) => view.setUint32(0, value, true)) };
}

/** Writes a number in network byte order, as nf_tables wants it. */
export function u32be(type: number, value: number): Attribute {
  return { type, payload: words(4, (view) => view.setUint32(0, value, false)) };
}

/** Does the same with 64 bits. @param value an integer */
export function u64be(type: number, value: number): Attribute {
  return { type, payload: words(8, (view) => view.setBigUint64(0, BigInt(value), false)) };
}

/** Writes a string with its terminating zero. */
export function text(type: number, value: string): Attribute {
  return { type, payload: UTF8.encode(`${value}\0`) };
}

export function nest(type: number, children: readonly Attribute[]): Attribute {
  return { type: type | NLA_F_NESTED, payload: encodeAttributes(children) };
}

/** @throws NetlinkFormatError when a payload is longer than an attribute can be */
export function encodeAttributes(attributes: readonly Attribute[]): Uint8Array {
  let total = 0;
  for (const { payload } of attributes) total += ATTRIBUTE_HEADER + aligned(payload.length);
  // A buffer writes numbers without a DataView, which costs more than all the rest of a message.
  const result = Buffer.alloc(total);
  let at = 0;
  for (const { type, payload } of attributes) {
    const length = ATTRIBUTE_HEADER + payload.length;
    if (length > MAX_LENGTH) throw new NetlinkFormatError(`netlink attribute ${type & NLA_TYPE_MASK} is too long: ${payload.length} bytes`);
    result.writeUInt16LE(length, at);
    result.writeUInt16LE(type, at + 2);
    result.set(payload, at + ATTRIBUTE_HEADER);
    at += aligned(length);
  }
  return result;
}

/**
 * Reads the attributes one after the other, flags taken off their types; payloads are views into `data`.
 * @throws NetlinkFormatError when a length is shorter than a header or longer than what is there
 */
export function parseAttributes(data: Uint8Array): Attribute[] {
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  const result: Attribute[] = [];
  for (let at = 0; at < data.length; ) {
    const length = data.length - at < ATTRIBUTE_HEADER ? 0 : view.getUint16(at, true);
    if (length < ATTRIBUTE_HEADER || length > data.length - at) {
      throw new NetlinkFormatError(`netlink attribute at ${at} of ${data.length} bytes has length ${length}`);
    }
    result.push({ type: view.getUint16(at + 2, true) & NLA_TYPE_MASK, payload: data.subarray(at + ATTRIBUTE_HEADER, at + length) });
    at += aligned(length);
  }
  return result;
}

/** Returns the attributes by type; of several with the same type the last one counts, as in the kernel. */
export function attributeMap(data: Uint8Array): ReadonlyMap<number, Uint8Array> {
  return new Map(parseAttributes(data).map(({ type, payload }) => [type, payload]));
}

/** Reads a number of four bytes in the machine's order; `undefined` for an absent attribute. */
export function readU32(payload: Uint8Array | undefined): number | undefined {
  return payload && viewOf(payload, 4).getUint32(0, true);
}

/** Does the same in network byte order. */
export function readU32be(payload: Uint8Array | undefined): number | undefined {
  return payload && viewOf(payload, 4).getUint32(0, false);
}

/** Reads a number of eight bytes in network byte order; `undefined` for an absent attribute. */
export function readU64be(payload: Uint8Array | undefined): bigint | undefined {
  return payload && viewOf(payload, 8).getBigUint64(0, false);
}

/** Opens bytes whose first `least` are read without a further look at the length. @throws NetlinkFormatError when there are fewer */
export function viewOf(payload: Uint8Array, least: number): DataView {
  if (payload.length < least) throw new NetlinkFormatError(`netlink payload has ${payload.length} bytes, at least ${least} are needed`);
  return new DataView(payload.buffer, payload.byteOffset, payload.length);
}

/** Reads text up to its terminating zero; `undefined` for an absent attribute. */
export function readText(payload: Uint8Array | undefined): string | undefined {
  if (payload === undefined) return undefined;
  const end = payload.indexOf(0);
  return new TextDecoder().decode(end < 0 ? payload : payload.subarray(0, end));
}

/**
 * Writes a structure of fixed length, which every message begins with, and attributes.
 * @param fill writes what is not zero
 */
export function structure(length: number, fill: (view: DataView) => void, attributes: readonly Attribute[] = []): Uint8Array {
  const tail = encodeAttributes(attributes);
  const result = new Uint8Array(length + tail.length);
  fill(new DataView(result.buffer));
  result.set(tail, length);
  return result;
}

/** Reads a message that begins with a structure of this length. @throws NetlinkFormatError */
export function parseStructure({ payload }: Message, length: number) {
  return { view: viewOf(payload, length), attributes: attributeMap(payload.subarray(length)) };
}

/** Rounds a length up to the four bytes that messages and attributes are padded to. */
export function aligned(length: number): number {
  // Not with bit operations: a hostile length may have the sign bit set.
  return Math.ceil(length / 4) * 4;
}

function words(length: number, fill: (view: DataView) => void): Uint8Array {
  const view = new DataView(new ArrayBuffer(length));
  fill(view);
  return new Uint8Array(view.buffer);
}

const MESSAGE_HEADER = 16;

export const NLMSG_ERROR = 2;
export const NLMSG_DONE = 3;

export const NLM_F_REQUEST = 0x1;
export const NLM_F_ACK = 0x4;
/** Says that a change disturbed a dump: its parts do not fit together. */
export const NLM_F_DUMP_INTR = 0x10;
export const NLM_F_DUMP = 0x300;
export const NLM_F_REPLACE = 0x100;
export const NLM_F_EXCL = 0x200;
export const NLM_F_CREATE = 0x400;
export const NLM_F_APPEND = 0x800;
const NLM_F_CAPPED = 0x100;
const NLM_F_ACK_TLVS = 0x200;
const NLMSGERR_ATTR_MSG = 1;

export interface Message {
  readonly type: number;
  readonly flags: number;
  readonly sequence: number;
  /** Everything after the header: a structure of fixed length, then attributes. */
  readonly payload: Uint8Array;
}

/** Encodes one message, padded; leaves the port to the kernel. */
export function encodeMessage(message: Message): Uint8Array {
  const result = Buffer.alloc(MESSAGE_HEADER + aligned(message.payload.length));
  result.writeUInt32LE(MESSAGE_HEADER + message.payload.length, 0);
  result.writeUInt16LE(message.type, 4);
  result.writeUInt16LE(message.flags, 6);
  result.writeUInt32LE(message.sequence, 8);
  result.set(message.payload, MESSAGE_HEADER);
  return result;
}

/**
 * Reads the messages of one datagram; payloads are views into `data`.
 * @throws NetlinkFormatError when a length is shorter than a header or longer than what is there
 */
export function parseMessages(data: Uint8Array): Message[] {
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  const result: Message[] = [];
  for (let at = 0; at < data.length; ) {
    const length = data.length - at < MESSAGE_HEADER ? 0 : view.getUint32(at, true);
    if (length < MESSAGE_HEADER || length > data.length - at) {
      throw new NetlinkFormatError(`netlink message at ${at} of ${data.length} bytes has length ${length}`);
    }
    result.push({
      type: view.getUint16(at + 4, true),
      flags: view.getUint16(at + 6, true),
      sequence: view.getUint32(at + 8, true),
      payload: data.subarray(at + MESSAGE_HEADER, at + length),
    });
    at += aligned(length);
  }
  return result;
}

interface Acknowledgement {
  /** 0: the request was carried out. */
  readonly errno: number;
  /** What the kernel says about it in words (NETLINK_EXT_ACK); often empty. */
  readonly detail: string;
}

/** Reads a message of type NLMSG_ERROR, or the NLMSG_DONE at the end of a dump, which carries an error number of its own. */
export function parseAcknowledgement(message: Message): Acknowledgement {
  const { payload } = message;
  if (message.type === NLMSG_DONE && payload.length < 4) return { errno: 0, detail: "" };
  const view = viewOf(payload, message.type === NLMSG_DONE ? 4 : 4 + MESSAGE_HEADER);
  const errno = Math.abs(view.getInt32(0, true));
  if ((message.flags & NLM_F_ACK_TLVS) === 0) return { errno, detail: "" };
  const request =
    message.type === NLMSG_DONE ? 0 : (message.flags & NLM_F_CAPPED) !== 0 ? MESSAGE_HEADER : aligned(view.getUint32(4, true));
  const attributes = attributeMap(payload.subarray(Math.min(4 + request, payload.length)));
  return { errno, detail: readText(attributes.get(NLMSGERR_ATTR_MSG)) ?? "" };
}

/** Says that the kernel refused a request. */
export class NetlinkError extends Error {
  override readonly name = "NetlinkError";
  readonly errno: number;
  /** What the kernel says about it in words; often empty. */
  readonly detail: string;

  constructor(errno: number, detail = "") {
    super(`${errnoText(errno)} (${errnoName(errno)})${detail === "" ? "" : `: ${detail}`}`);
    this.errno = errno;
    this.detail = detail;
  }
}

/** Returns what the work returns; `undefined` when the kernel refuses it with this error number. @throws every other failure */
export function unlessRefused<T>(errno: number, work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (error instanceof NetlinkError && error.errno === errno) return undefined;
    throw error;
  }
}

const ENOENT = 2;

/** Runs `work`. @returns `undefined` when there is no such object @throws what else `work` throws */
export function unlessMissing<T>(work: () => T): T | undefined {
  return unlessRefused(ENOENT, work);
}

/** Says that a list has more entries than its reader wants to spend time on. */
export class DumpTooLargeError extends Error {
  override readonly name = "DumpTooLargeError";

  constructor(most: number) {
    super(`the list has more than ${most} entries, or changed while they were read`);
  }
}

/** include/linux/socket.h */
const AF_INET = 2;
const AF_INET6 = 10;

/** Handles addresses as the kernel writes them: the numbers of their families, and bytes in network order. */
export function numberOf(family: Family): number {
  return family === 4 ? AF_INET : AF_INET6;
}

/** Returns the family; `undefined` for any other than these two. */
export function familyOf(number: number): Family | undefined {
  return number === AF_INET ? 4 : number === AF_INET6 ? 6 : undefined;
}

/** @throws NetlinkFormatError when the octets are not as many as an address of the family has */
export function addressOf(family: Family, octets: Uint8Array): Address {
  if (octets.length * 8 !== bitsOf(family)) throw new NetlinkFormatError(`IPv${family} address has ${octets.length} bytes`);
  return { family, value: octets.reduce((value, octet) => (value << 8n) | BigInt(octet), 0n) };
}
