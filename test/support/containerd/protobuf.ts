/** As much of protocol buffers as the CRI calls of the tests need: https://protobuf.dev/programming-guides/encoding/. */

/** Field number → value; a list is a repeated field. Absent members and zero values are left out, as proto3 does. */
export interface Message {
  readonly [field: number]: FieldValue | readonly FieldValue[] | undefined;
}
type FieldValue = string | number | Message;

export function encode(message: Message): Buffer {
  const parts: Buffer[] = [];
  for (const [field, values] of Object.entries(message)) {
    for (const value of Array.isArray(values) ? values : [values]) parts.push(...encodeField(Number(field), value));
  }
  return Buffer.concat(parts);
}

function encodeField(field: number, value: FieldValue | undefined): Buffer[] {
  if (value === undefined || value === 0 || value === "") return [];
  if (typeof value === "number") return [varint(field << 3), varint(value)];
  const bytes = typeof value === "string" ? Buffer.from(value) : encode(value);
  return [varint((field << 3) | 2), varint(bytes.length), bytes];
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest > 0x7f; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 0x80);
  return Buffer.from([...bytes, rest]);
}

/** A field as it came: a number, or bytes that are text or another message. */
export type Decoded = ReadonlyMap<number, readonly (number | Buffer)[]>;

export function decode(bytes: Buffer): Decoded {
  const fields = new Map<number, (number | Buffer)[]>();
  let at = 0;
  const readVarint = (): number => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = bytes[at++];
      if (byte === undefined) throw new Error("protocol buffer ends in the middle of a number");
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
    }
  };
  while (at < bytes.length) {
    const tag = readVarint();
    const values = fields.get(tag >>> 3) ?? [];
    fields.set(tag >>> 3, values);
    if ((tag & 7) === 0) values.push(readVarint());
    else if ((tag & 7) === 2) {
      const length = readVarint();
      values.push(bytes.subarray(at, at + length));
      at += length;
    } else throw new Error(`protocol buffer field ${tag >>> 3} has wire type ${tag & 7}`);
  }
  return fields;
}

/** The first value of a text field; "" when it is absent. */
export function textOf(fields: Decoded, field: number): string {
  return String(fields.get(field)?.[0] ?? "");
}

/** The first value of a number field; 0 when it is absent. */
export function numberOf(fields: Decoded, field: number): number {
  return Number(fields.get(field)?.[0] ?? 0);
}

/** The first value of a message field; empty when it is absent. */
export function messageOf(fields: Decoded, field: number): Decoded {
  const value = fields.get(field)?.[0];
  return Buffer.isBuffer(value) ? decode(value) : new Map();
}
