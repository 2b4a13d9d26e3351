import {
  attributeMap,
  bytes,
  encodeAttributes,
  NetlinkFormatError,
  nest,
  parseAttributes,
  readText,
  readU32,
  text,
  u8,
  u32,
  u32be,
} from "../../../../dataplane/netlink/message.ts";

const hex = (data: Uint8Array) => Buffer.from(data).toString("hex");
const unhex = (data: string) => new Uint8Array(Buffer.from(data.replaceAll(" ", ""), "hex"));

describe("netlink attributes as bytes", () => {
  it("have a length without the padding, a type, and are padded to four bytes", () => {
    expect(hex(encodeAttributes([text(3, "eth0"), u8(8, 1), u32(4, 1500)]))).toBe(
      ["0900 0300 65746830 00 000000", "0500 0800 01 000000", "0800 0400 dc050000"].join("").replaceAll(" ", ""),
    );
  });

  it("mark nests, and may hold numbers in network order", () => {
    expect(hex(encodeAttributes([nest(18, [text(1, "veth"), u32be(2, 100)])]))).toBe(
      ["1800 1280", "0900 0100 76657468 00 000000", "0800 0200 00000064"].join("").replaceAll(" ", ""),
    );
  });

  it("refuse a payload that no attribute can hold", () => {
    expect(() => encodeAttributes([bytes(1, new Uint8Array(65532))])).toThrow(NetlinkFormatError);
    expect(encodeAttributes([bytes(1, new Uint8Array(65531))])).toHaveLength(65536);
  });

  it("are read back, with the flags taken off their types", () => {
    const data = unhex("0900 0300 65746830 00 000000  0800 0480 dc050000  0800 0540 00000001");
    expect(parseAttributes(data).map(({ type, payload }) => [type, hex(payload)])).toEqual([
      [3, "6574683000"],
      [4, "dc050000"],
      [5, "00000001"],
    ]);
    expect(readText(attributeMap(data).get(3))).toBe("eth0");
    expect(readU32(attributeMap(data).get(4))).toBe(1500);
    expect(readU32(attributeMap(data).get(99))).toBeUndefined();
  });

  it("may lack the padding of the last one, and a text its zero", () => {
    expect(readText(parseAttributes(unhex("0600 0300 6162"))[0]?.payload)).toBe("ab");
  });

  it.each([
    ["a length of zero", "0000 0300 00000000"],
    ["a length shorter than the header", "0300 0300"],
    ["a length beyond the end", "0900 0300 65746830"],
    ["the rest of a header", "0800 0400 dc050000 0800"],
  ])("are refused with %s", (_name, data) => {
    expect(() => parseAttributes(unhex(data))).toThrow(NetlinkFormatError);
  });

  it("refuse a number that is cut short", () => {
    expect(() => readU32(unhex("0102"))).toThrow(NetlinkFormatError);
  });
});
