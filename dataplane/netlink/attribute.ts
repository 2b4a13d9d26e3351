/**
 * Netlink attributes: 16 bit length, 16 bit type, payload, padded to four bytes (include/uapi/linux/netlink.h, struct nlattr).
 * Numbers are in the machine's own order, which is little-endian on everything Bun runs on; those that are in network order say so.
 */

const HEADER = 4;
const NLA_F_NESTED = 0x8000;
/** NLA_F_NESTED and NLA_F_NET_BYTEORDER are not part of the type. */
const NLA_TYPE_MASK = 0x3fff;
const MAX_LENGTH = 0xffff;

export interface Attribute {
  readonly type: number;
  readonly payload: Uint8Array;
}

/** Bytes that cannot be what the kernel sends, or a request that does not fit into a message. */
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

/** Network byte order, as nf_tables wants its numbers. */
export function u32be(type: number, value: number): Attribute {
  return { type, payload: words(4, (view) => view.setUint32(0, value, false)) };
}

/** A string with its terminating zero. */
export function text(type: number, value: string): Attribute {
  return { type, payload: new TextEncoder().encode(`${value}\0`) };
}

export function nest(type: number, children: readonly Attribute[]): Attribute {
  return { type: type | NLA_F_NESTED, payload: encodeAttributes(children) };
}

/** @throws NetlinkFormatError when a payload is longer than an attribute can be */
export function encodeAttributes(attributes: readonly Attribute[]): Uint8Array {
  let total = 0;
  for (const { payload } of attributes) total += HEADER + aligned(payload.length);
  const result = new Uint8Array(total);
  const view = new DataView(result.buffer);
  let at = 0;
  for (const { type, payload } of attributes) {
    const length = HEADER + payload.length;
    if (length > MAX_LENGTH) throw new NetlinkFormatError(`netlink attribute ${type & NLA_TYPE_MASK} is too long: ${payload.length} bytes`);
    view.setUint16(at, length, true);
    view.setUint16(at + 2, type, true);
    result.set(payload, at + HEADER);
    at += aligned(length);
  }
  return result;
}

/**
 * The attributes one after the other, flags taken off their types; payloads are views into `data`.
 * @throws NetlinkFormatError when a length is shorter than a header or longer than what is there
 */
export function parseAttributes(data: Uint8Array): Attribute[] {
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  const result: Attribute[] = [];
  for (let at = 0; at < data.length; ) {
    const length = data.length - at < HEADER ? 0 : view.getUint16(at, true);
    if (length < HEADER || length > data.length - at) {
      throw new NetlinkFormatError(`netlink attribute at ${at} of ${data.length} bytes has length ${length}`);
    }
    result.push({ type: view.getUint16(at + 2, true) & NLA_TYPE_MASK, payload: data.subarray(at + HEADER, at + length) });
    at += aligned(length);
  }
  return result;
}

/** The attributes by type; of several with the same type the last one counts, as in the kernel. */
export function attributeMap(data: Uint8Array): ReadonlyMap<number, Uint8Array> {
  return new Map(parseAttributes(data).map(({ type, payload }) => [type, payload]));
}

/** Number of four bytes in the machine's order; `undefined` for an absent attribute. */
export function readU32(payload: Uint8Array | undefined): number | undefined {
  if (payload === undefined) return undefined;
  if (payload.length < 4) throw new NetlinkFormatError(`netlink number has ${payload.length} bytes`);
  return new DataView(payload.buffer, payload.byteOffset, payload.length).getUint32(0, true);
}

/** Text up to its terminating zero; `undefined` for an absent attribute. */
export function readText(payload: Uint8Array | undefined): string | undefined {
  if (payload === undefined) return undefined;
  const end = payload.indexOf(0);
  return new TextDecoder().decode(end < 0 ? payload : payload.subarray(0, end));
}

/** Length rounded up to the four bytes that messages and attributes are padded to. */
export function aligned(length: number): number {
  // Not with bit operations: a hostile length may have the sign bit set.
  return Math.ceil(length / 4) * 4;
}

function words(length: number, fill: (view: DataView) => void): Uint8Array {
  const view = new DataView(new ArrayBuffer(length));
  fill(view);
  return new Uint8Array(view.buffer);
}
