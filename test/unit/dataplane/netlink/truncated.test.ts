/** Messages that end too early, as a whole or in one of their attributes. */
import {
  type Attribute,
  encodeAttributes,
  NetlinkFormatError,
  NLA_F_NESTED,
  parseAttributes,
} from "../../../../dataplane/netlink/message.ts";
import { messageFor, READERS, type Reader } from "../../../support/netlink-readers.ts";

/** The attributes again and again, each time with one of them cut, at any depth. */
function* withOneCut(attributes: readonly Attribute[]): Generator<readonly Attribute[]> {
  for (const [at, { type, payload }] of attributes.entries()) {
    const replaced = (bytes: Uint8Array) => attributes.with(at, { type, payload: bytes });
    for (let length = 0; length < payload.length; length++) yield replaced(payload.slice(0, length));
    if ((type & NLA_F_NESTED) === 0) continue;
    for (const children of withOneCut(nestedIn(payload))) yield replaced(encodeAttributes(children));
  }
}

/** Children keep the flags of their types, which `parseAttributes` takes off. */
function nestedIn(payload: Uint8Array): readonly Attribute[] {
  let at = 0;
  return parseAttributes(payload).map((child) => {
    const type = Buffer.from(payload).readUInt16LE(at + 2);
    at += Math.ceil((4 + child.payload.length) / 4) * 4;
    return { type, payload: child.payload };
  });
}

/** @returns the classes of what is thrown that is no answer */
function otherErrors({ read }: Reader, payloads: Iterable<Uint8Array>, message: ReturnType<typeof messageFor>): readonly string[] {
  const found = new Set<string>();
  for (const payload of payloads) {
    try {
      read({ ...message, payload });
    } catch (error) {
      if (!(error instanceof NetlinkFormatError)) found.add(String(error));
    }
  }
  return [...found];
}

describe.each(READERS.map((reader) => [reader.name, reader] as const))("%s", (_, reader) => {
  const message = messageFor(reader);

  it("reads a whole message", () => {
    expect(() => reader.read(message)).not.toThrow();
  });

  it("refuses every shorter one as malformed, or reads what is there", () => {
    const shorter = Array.from(message.payload, (_octet, length) => message.payload.slice(0, length));
    expect(otherErrors(reader, shorter, message)).toEqual([]);
  });

  it("refuses a message with a shorter attribute as malformed, or reads the others", () => {
    const cut = [...withOneCut(reader.attributes)].map((attributes) => messageFor({ ...reader, attributes }).payload);
    expect(otherErrors(reader, cut, message)).toEqual([]);
  });

  it("says that a message without its structure is malformed", () => {
    expect(() => reader.read({ ...message, payload: reader.head.slice(0, reader.head.length - 1) })).toThrow(NetlinkFormatError);
  });
});
