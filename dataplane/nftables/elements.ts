/**
 * Encodes and reads the elements of sets and verdict maps (include/uapi/linux/netfilter/nf_tables.h).
 *
 * An element is a pair of strings: the bytes of its key, one character a byte, and its verdict: "goto CHAIN", "return", or "" in a plain
 * set. They are compact, and they are found in a `Map`.
 */
import {
  ATTRIBUTE_HEADER,
  type Attribute,
  aligned,
  type Message,
  NetlinkFormatError,
  NLA_F_NESTED,
  NLA_TYPE_MASK,
  NLM_F_CREATE,
  viewOf,
} from "../netlink/message.ts";
import type { Request } from "../netlink/socket.ts";
import { about, NFGENMSG_BYTES, type TableFamily } from "./message.ts";
import type { SetShape } from "./sets.ts";

const NFTA_LIST_ELEM = 1;
const NFTA_SET_ELEM_LIST_ELEMENTS = 3;
const NFTA_SET_ELEM_KEY = 1;
const NFTA_SET_ELEM_DATA = 2;
const NFTA_DATA_VALUE = 1;
const NFTA_DATA_VERDICT = 2;
const NFTA_VERDICT_CODE = 1;
const NFTA_VERDICT_CHAIN = 2;
const NFT_GOTO = -4;
const NFT_RETURN = -5;

/** Elements of one set: key → verdict. */
export type Elements = ReadonlyMap<string, string>;

/** Limits the elements of one message: an attribute ends at 64 KiB. */
const MOST_BYTES = 60_000;
/** Has room for an element with its verdict. */
const ROOM_BYTES = 1024;

/** Makes requests that add elements, as many as they need. One that is there already with another verdict is refused by the kernel. */
export function* addElements(
  family: TableFamily,
  table: string,
  set: string,
  shape: SetShape,
  elements: Iterable<readonly [key: string, verdict: string]>,
): Generator<Request> {
  const encoder = new ElementsEncoder();
  const request = () => about("new", "element", family, [table, set], [encoder.take()], NLM_F_CREATE);
  for (const [key, verdict] of elements) {
    encoder.add(key, shape.isMap ? verdict : undefined);
    if (encoder.isFull) yield request();
  }
  if (!encoder.isEmpty) yield request();
}

/** Makes requests that delete elements, which must be there. */
export function* deleteElements(family: TableFamily, table: string, set: string, keys: Iterable<string>): Generator<Request> {
  const encoder = new ElementsEncoder();
  const request = () => about("delete", "element", family, [table, set], [encoder.take()]);
  for (const key of keys) {
    encoder.add(key, undefined);
    if (encoder.isFull) yield request();
  }
  if (!encoder.isEmpty) yield request();
}

/** Deletes all elements of a set. */
export function flushElements(family: TableFamily, table: string, set: string): Request {
  return about("delete", "element", family, [table, set]);
}

/** Writes elements one after the other into the buffer of a message; a table has some ten thousand, so no object is made for any. */
class ElementsEncoder {
  /** Small at first: an endpoint that comes is one element in each of some hundred sets. */
  #buffer: Buffer = Buffer.allocUnsafe(2 * ROOM_BYTES);
  #at = 0;

  get isEmpty(): boolean {
    return this.#at === 0;
  }

  get isFull(): boolean {
    return this.#at >= MOST_BYTES;
  }

  /** Returns what was added since the last call. The next `add` overwrites it. */
  take(): Attribute {
    const payload = this.#buffer.subarray(0, this.#at);
    this.#at = 0;
    return { type: NFTA_SET_ELEM_LIST_ELEMENTS | NLA_F_NESTED, payload };
  }

  add(key: string, verdict: string | undefined): void {
    if (this.#buffer.length - this.#at < ROOM_BYTES) this.#buffer = Buffer.concat([this.#buffer], 2 * this.#buffer.length);
    const start = this.#open(NFTA_LIST_ELEM);
    this.#key(NFTA_SET_ELEM_KEY, key);
    if (verdict !== undefined) this.#verdict(verdict);
    this.#close(start);
  }

  #key(type: number, key: string): void {
    const outer = this.#open(type);
    const inner = this.#open(NFTA_DATA_VALUE, 0);
    this.#at += this.#buffer.write(key, this.#at, "latin1");
    this.#close(inner);
    this.#close(outer);
  }

  #verdict(verdict: string): void {
    const outer = this.#open(NFTA_SET_ELEM_DATA);
    const inner = this.#open(NFTA_DATA_VERDICT);
    this.#number(NFTA_VERDICT_CODE, verdict === "return" ? NFT_RETURN : NFT_GOTO);
    if (verdict !== "return") {
      const chain = this.#open(NFTA_VERDICT_CHAIN, 0);
      this.#at += this.#buffer.write(`${verdict.slice("goto ".length)}\0`, this.#at, "latin1");
      this.#close(chain);
    }
    this.#close(inner);
    this.#close(outer);
  }

  #number(type: number, value: number): void {
    const start = this.#open(type, 0);
    this.#at = this.#buffer.writeInt32BE(value, this.#at);
    this.#close(start);
  }

  #open(type: number, flags = NLA_F_NESTED): number {
    const start = this.#at;
    this.#buffer.writeUInt16LE(type | flags, start + 2);
    this.#at = start + ATTRIBUTE_HEADER;
    return start;
  }

  #close(start: number): void {
    this.#buffer.writeUInt16LE(this.#at - start, start);
    while (this.#at % 4 !== 0) this.#buffer[this.#at++] = 0;
  }
}

/**
 * Reads the elements of a dump.
 * @returns `undefined` when they are none that `addElements` makes: a verdict that we do not use
 */
export function elementsIn(messages: readonly Message[], shape: SetShape): Map<string, string> | undefined {
  const result = new Map<string, string>();
  for (const message of messages) {
    const reader = new ElementsReader(message);
    for (const element of reader.elements()) {
      const verdict = shape.isMap ? reader.verdictOf(element) : "";
      if (verdict === undefined) return undefined;
      result.set(reader.keyOf(element), verdict);
    }
  }
  return result;
}

/**
 * Reads the elements of one message in place: a table has some ten thousand, so no object is made for any. An attribute is named by the
 * place of its header; -1 stands for one that is not there, and has nothing in it.
 */
class ElementsReader {
  readonly #bytes: Buffer;

  constructor({ payload }: Message) {
    const { buffer, byteOffset, byteLength } = viewOf(payload, NFGENMSG_BYTES);
    this.#bytes = Buffer.from(buffer, byteOffset, byteLength);
  }

  *elements(): Generator<number> {
    const list = this.#find(NFTA_SET_ELEM_LIST_ELEMENTS, NFGENMSG_BYTES, this.#bytes.length);
    if (list < 0) return;
    const end = this.#endOf(list, this.#bytes.length);
    for (let at = list + ATTRIBUTE_HEADER; at < end; at += aligned(this.#endOf(at, end) - at)) yield at;
  }

  keyOf(element: number): string {
    const value = this.#within(this.#within(element, NFTA_SET_ELEM_KEY), NFTA_DATA_VALUE);
    return value < 0 ? "" : this.#bytes.toString("latin1", value + ATTRIBUTE_HEADER, this.#endOf(value));
  }

  /** @returns `undefined` for a verdict that we do not use, or none */
  verdictOf(element: number): string | undefined {
    const verdict = this.#within(this.#within(element, NFTA_SET_ELEM_DATA), NFTA_DATA_VERDICT);
    const code = this.#numberOf(this.#within(verdict, NFTA_VERDICT_CODE));
    if (code === NFT_RETURN) return "return";
    if (code !== NFT_GOTO) return undefined;
    const chain = this.#within(verdict, NFTA_VERDICT_CHAIN);
    // The name ends with a zero.
    return `goto ${chain < 0 ? "" : this.#bytes.toString("latin1", chain + ATTRIBUTE_HEADER, this.#endOf(chain) - 1)}`;
  }

  #numberOf(attribute: number): number {
    return attribute < 0 ? 0 : viewOf(this.#bytes.subarray(attribute + ATTRIBUTE_HEADER, this.#endOf(attribute)), 4).getInt32(0, false);
  }

  #within(parent: number, type: number): number {
    return parent < 0 ? -1 : this.#find(type, parent + ATTRIBUTE_HEADER, this.#endOf(parent));
  }

  #find(type: number, from: number, end: number): number {
    for (let at = from, next = from; at < end; at = next) {
      next = at + aligned(this.#endOf(at, end) - at);
      if ((this.#bytes.readUInt16LE(at + 2) & NLA_TYPE_MASK) === type) return at;
    }
    return -1;
  }

  /** @throws NetlinkFormatError when the attribute is shorter than its header, or longer than what it is in */
  #endOf(attribute: number, limit = this.#bytes.length): number {
    const length = limit - attribute < ATTRIBUTE_HEADER ? 0 : this.#bytes.readUInt16LE(attribute);
    if (length < ATTRIBUTE_HEADER || length > limit - attribute) {
      throw new NetlinkFormatError(`an attribute of a set's element at ${attribute} of ${limit} bytes has length ${length}`);
    }
    return attribute + length;
  }
}
