/** Datagrams that are almost the kernel's. */
import {
  encodeAttributes,
  encodeMessage,
  NetlinkFormatError,
  nest,
  parseAcknowledgement,
  parseAttributes,
  parseMessages,
  readText,
  readU32,
  text,
  u8,
  u32,
} from "../../../dataplane/netlink/message.ts";
import { messageFor, READERS } from "../../support/netlink-readers.ts";
import { fuzz } from "./fuzz.ts";
import { mutateBytes } from "./mutate.ts";

const payload = encodeAttributes([u32(1, 5), text(3, "eth0"), nest(18, [text(1, "veth"), nest(2, [u8(1, 1)])])]);
const INPUTS = [
  encodeMessage({ type: 16, flags: 2, sequence: 1, payload }),
  encodeMessage({ type: 2, flags: 0x200, sequence: 1, payload: Uint8Array.from([...new Uint8Array(20), ...payload]) }),
  Uint8Array.from([
    ...encodeMessage({ type: 3, flags: 2, sequence: 1, payload: new Uint8Array(4) }),
    ...encodeMessage({ type: 16, flags: 2, sequence: 2, payload }),
  ]),
];

it("Fuzzing: whatever the bytes, a datagram is refused as malformed, or read within its bounds", () => {
  const run = (data: Uint8Array): void => {
    for (const message of parseMessages(data)) {
      if (message.type === 2) parseAcknowledgement(message);
      else readAll(message.payload, 0);
    }
  };
  const { accepted, refused } = fuzz({ inputs: INPUTS, mutate: mutateBytes, answers: [NetlinkFormatError], run, count: 30_000 });
  expect(accepted).toBeGreaterThan(100);
  expect(refused).toBeGreaterThan(100);
});

it.each(READERS.map((reader) => [reader.name, reader] as const))("Fuzzing: %s refuses a message as malformed, or reads it", (_, reader) => {
  const message = messageFor(reader);
  const run = (payload: Uint8Array) => reader.read({ ...message, payload });
  const { refused } = fuzz({ inputs: [message.payload], mutate: mutateBytes, answers: [NetlinkFormatError], run, count: 20_000 });
  expect(refused).toBeGreaterThan(100);
});

function readAll(data: Uint8Array, depth: number): void {
  for (const { payload } of parseAttributes(data)) {
    expect(payload.byteOffset + payload.length).toBeLessThanOrEqual(data.byteOffset + data.length);
    readText(payload);
    readU32(payload);
    if (depth < 3 && payload.length >= 4 && payload[0] === 5) readAll(payload, depth + 1);
  }
}
