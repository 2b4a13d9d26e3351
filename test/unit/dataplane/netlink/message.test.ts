import { encodeMessage, NetlinkFormatError, parseAcknowledgement, parseMessages } from "../../../../dataplane/netlink/message.ts";

const hex = (data: Uint8Array) => Buffer.from(data).toString("hex");
const unhex = (data: string) => new Uint8Array(Buffer.from(data.replaceAll(" ", ""), "hex"));
const first = (data: string) => {
  const [message] = parseMessages(unhex(data));
  if (message === undefined) throw new Error("no message");
  return message;
};
/** Header of an NLMSG_ERROR with sequence 7. */
const error = (length: string, flags: string) => `${length} 0200 ${flags} 07000000 00000000`;
const REQUEST_HEADER = "24000000 1000 0506 07000000 00000000";

describe("netlink messages as bytes", () => {
  it("have a header whose length does not count the padding", () => {
    const message = { type: 16, flags: 0x605, sequence: 7, payload: unhex("aabbcc") };
    expect(hex(encodeMessage(message))).toBe("13000000100005060700000000000000aabbcc00");
  });

  it("come several in one datagram", () => {
    const data = unhex("12000000 1000 0200 07000000 01000000 aabb 0000  10000000 0300 0200 07000000 01000000");
    expect(parseMessages(data).map(({ type, flags, sequence, payload }) => [type, flags, sequence, hex(payload)])).toEqual([
      [16, 2, 7, "aabb"],
      [3, 2, 7, ""],
    ]);
  });

  it.each([
    ["a length of zero", "00000000 1000 0000 07000000 00000000"],
    ["a length shorter than the header", "0f000000 1000 0000 07000000 00000000"],
    ["a length beyond the end", "11000000 1000 0000 07000000 00000000"],
    ["a length near the end of 32 bits", "fdffffff 1000 0000 07000000 00000000"],
    ["half a header", "10000000 1000"],
  ])("are refused with %s", (_name, data) => {
    expect(() => parseMessages(unhex(data))).toThrow(NetlinkFormatError);
  });
});

describe("an acknowledgement", () => {
  it("is a success when its number is 0", () => {
    expect(parseAcknowledgement(first(`${error("24000000", "0001")} 00000000 ${REQUEST_HEADER}`))).toEqual({ errno: 0, detail: "" });
  });

  it("carries the kernel's words after the header of the request", () => {
    const words = "0800 0100 6e6f7000 0800 0200 1c000000";
    const message = first(`${error("34000000", "0003")} eaffffff ${REQUEST_HEADER} ${words}`);
    expect(parseAcknowledgement(message)).toEqual({ errno: 22, detail: "nop" });
  });

  it("carries them after the whole request when that is not left out", () => {
    const request = "14000000 1000 0506 07000000 00000000 aabbccdd";
    const message = first(`${error("30000000", "0002")} efffffff ${request} 0800 0100 6e6f7000`);
    expect(parseAcknowledgement(message)).toEqual({ errno: 17, detail: "nop" });
  });

  it("is refused when it is cut short or the length of the request in it is a lie", () => {
    expect(() => parseAcknowledgement(first(`${error("14000000", "0000")} eaffffff`))).toThrow(NetlinkFormatError);
    const lie = "ffffff7f 1000 0506 07000000 00000000";
    expect(parseAcknowledgement(first(`${error("24000000", "0002")} efffffff ${lie}`))).toEqual({ errno: 17, detail: "" });
  });

  it("may come at the end of a dump", () => {
    expect(parseAcknowledgement(first("14000000 0300 0200 07000000 01000000 feffffff"))).toEqual({ errno: 2, detail: "" });
    expect(parseAcknowledgement(first("10000000 0300 0200 07000000 01000000"))).toEqual({ errno: 0, detail: "" });
  });
});
