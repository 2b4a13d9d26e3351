import { bytes, encodeAttributes, encodeMessage, text, u32be } from "../../../../dataplane/netlink/message.ts";
import { SequenceGaps } from "../../../../dataplane/nflog/group.ts";
import { bindRequest, parseLog, settingsRequest } from "../../../../dataplane/nflog/message.ts";
import { seededRandom } from "../../../support/seeded-random.ts";

const hex = (data: Uint8Array) => Buffer.from(data).toString("hex");
const NFGENMSG = [2, 0, 0, 7];
const PACKET = 0x400;
const UDP = Buffer.from("4500002000000000401100000a0000010a0000029c400050", "hex");

/** A message of the log with these attributes. */
function logged(attributes: Parameters<typeof encodeAttributes>[0], type = PACKET): Uint8Array {
  return encodeMessage({ type, flags: 0, sequence: 0, payload: Buffer.concat([Buffer.from(NFGENMSG), encodeAttributes(attributes)]) });
}

const WHOLE = logged([text(10, "tortie in denied"), u32be(4, 3), u32be(5, 9), u32be(12, 41), bytes(9, UDP)]);

describe("the requests for a group of the packet log", () => {
  it("are what the kernel's header says", () => {
    expect(hex(bindRequest(7).payload)).toBe("00000007" + "0500010001000000");
    const settings = { copyBytes: 128, bufferBytes: 8192, packets: 20, hundredths: 5 };
    expect(hex(settingsRequest(7, settings).payload)).toBe(
      // Group, how to copy, size of the buffer, time, number of packets, flags.
      "00000007" + "0a000200000000800200" + "0000" + "0800030000002000" + "0800040000000005" + "0800050000000014" + "0600060000010000",
    );
  });
});

describe("a datagram of the packet log", () => {
  it("has prefix, interfaces, number and the beginning of each packet", () => {
    const one = { prefix: "tortie in denied", inInterface: 3, outInterface: 9, sequence: 41 };
    const header = expect.objectContaining({ protocol: 17, sourcePort: 40_000, destinationPort: 80 });
    expect(parseLog(Buffer.concat([WHOLE, WHOLE]))).toEqual([
      { ...one, header },
      { ...one, header },
    ]);
  });

  it("may lack everything", () => {
    const nothing = { prefix: "", inInterface: undefined, outInterface: undefined, sequence: undefined, header: undefined };
    expect(parseLog(logged([]))).toEqual([nothing]);
  });

  it("passes over messages of other kinds", () => {
    expect(parseLog(logged([], 2))).toEqual([]);
  });

  it.each([
    ["cut off", WHOLE.subarray(0, 30)],
    ["with a number of two bytes", logged([bytes(4, new Uint8Array(2))])],
    ["with a message that is shorter than its header", new Uint8Array(16)],
  ])("is not readable when it is %s", (_name, data) => {
    expect(parseLog(data)).toBeUndefined();
  });

  it("never makes the reader throw", () => {
    const random = seededRandom(29);
    for (let i = 0; i < 20_000; i++) {
      const data = Uint8Array.from(WHOLE);
      for (let changes = 0; changes < 3; changes++) data[Math.floor(random() * data.length)] = Math.floor(random() * 256);
      expect(() => parseLog(data.subarray(0, Math.floor(random() * (data.length + 1))))).not.toThrow();
    }
  });
});

describe("the numbers of logged packets", () => {
  it("say how many are missing, also where they begin again", () => {
    const gaps = new SequenceGaps();
    const lostBefore = (...numbers: number[]) => gaps.lostBefore(numbers.map((sequence) => ({ sequence })));
    expect(lostBefore(7, 8)).toBe(0);
    expect(lostBefore(9, 12)).toBe(2);
    expect(lostBefore(2 ** 32 - 1)).toBe(2 ** 32 - 1 - 13);
    expect(lostBefore(0, 2)).toBe(1);
    expect(gaps.lostBefore([{ sequence: undefined }])).toBe(0);
  });
});
