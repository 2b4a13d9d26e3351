import { type PacketHeader, parsePacket } from "../../../../dataplane/nflog/packet.ts";
import { formatAddress } from "../../../../lib/addresses/address.ts";
import { seededRandom } from "../../../support/seeded-random.ts";

const unhex = (data: string) => new Uint8Array(Buffer.from(data.replaceAll(" ", ""), "hex"));
/** IPv4 from 10.0.0.1 to 10.0.0.2. @param words version and header length; flags and part */
const v4 = (protocol: string, rest: string, [first, part] = ["45", "0000"]) =>
  unhex(`${first} 00 0040 0000 ${part} 40 ${protocol} 0000 0a000001 0a000002 ${rest}`);
/** IPv6 from fd00::1 to fd00::2. */
const v6 = (next: string, rest: string) =>
  unhex(`60000000 0040 ${next} 40 fd000000000000000000000000000001 fd000000000000000000000000000002 ${rest}`);
const PORTS = "9c40 0050";
const TCP_SYN = `${PORTS} 00000001 00000000 50 02 ffff 0000 0000`;
/** Options of one unit of eight bytes. */
const extension = (next: string) => `${next} 00 0000 00000000`;

function shown(data: Uint8Array): string {
  const header = parsePacket(data);
  if (header === undefined) return "nothing";
  const { source, destination, protocol, sourcePort, destinationPort, tcpFlags } = header;
  return `${formatAddress(source)} ${formatAddress(destination)} ${protocol} ${sourcePort ?? "-"} ${destinationPort ?? "-"} ${tcpFlags ?? "-"}`;
}

const V4 = "10.0.0.1 10.0.0.2";
const V6 = "fd00::1 fd00::2";

describe("the beginning of a packet", () => {
  it.each([
    ["IPv4 TCP", v4("06", TCP_SYN), `${V4} 6 40000 80 2`],
    ["IPv4 UDP", v4("11", `${PORTS} 0008 0000`), `${V4} 17 40000 80 -`],
    ["IPv4 SCTP", v4("84", `${PORTS} 00000000`), `${V4} 132 40000 80 -`],
    ["IPv4 ICMP, which has no ports", v4("01", "0800 0000 0001 0001"), `${V4} 1 - - -`],
    ["IPv4 with options", v4("11", `01010101 ${PORTS}`, ["46", "0000"]), `${V4} 17 40000 80 -`],
    ["the first part of an IPv4 datagram", v4("11", PORTS, ["45", "2000"]), `${V4} 17 40000 80 -`],
    ["a later part of an IPv4 datagram", v4("11", PORTS, ["45", "0001"]), `${V4} 17 - - -`],
    ["IPv6 TCP", v6("06", TCP_SYN), `${V6} 6 40000 80 2`],
    ["IPv6 with hop-by-hop and destination options", v6("00", `${extension("3c")} ${extension("11")} ${PORTS}`), `${V6} 17 40000 80 -`],
    ["IPv6 with an authentication header", v6("33", `11 04 0000 ${"00".repeat(20)} ${PORTS}`), `${V6} 17 40000 80 -`],
    ["the first part of an IPv6 datagram", v6("2c", `06 00 0001 00000001 ${TCP_SYN}`), `${V6} 6 40000 80 2`],
    ["a later part of an IPv6 datagram", v6("2c", `06 00 0008 00000001 ${TCP_SYN}`), `${V6} 6 - - -`],
    ["IPv6 that says there is nothing more", v6("3b", PORTS), `${V6} 59 - - -`],
  ])("is read of %s", (_name, data, expected) => {
    expect(shown(data)).toBe(expected);
  });

  it.each([
    ["no byte", new Uint8Array()],
    ["another version", unhex("75 00 0040".padEnd(80, "0"))],
    ["an IPv4 header of 16 bytes", v4("11", PORTS, ["44", "0000"])],
    ["19 bytes of IPv4", v4("11", "").subarray(0, 19)],
    ["39 bytes of IPv6", v6("11", "").subarray(0, 39)],
  ])("is nothing with %s", (_name, data) => {
    expect(shown(data)).toBe("nothing");
  });

  it.each([
    ["between IPv4 header and ports", v4("06", TCP_SYN).subarray(0, 20), `${V4} 6 - - -`],
    ["within the ports", v4("06", TCP_SYN).subarray(0, 23), `${V4} 6 - - -`],
    ["before the flags", v4("06", TCP_SYN).subarray(0, 33), `${V4} 6 40000 80 -`],
    ["where IPv4 options are announced", v4("06", "", ["4f", "0000"]), `${V4} 6 - - -`],
    ["within an extension header", v6("3c", "1100"), `${V6} 60 - - -`],
    ["behind an extension header that announces 2,048 bytes", v6("3c", "11ff 0000 00000000"), `${V6} 17 - - -`],
  ])("has no ports when it is cut off %s", (_name, data, expected) => {
    expect(shown(data)).toBe(expected);
  });

  it("is not searched for ever in extension headers", () => {
    expect(shown(v6("3c", `${extension("3c").repeat(9)} ${PORTS}`))).toBe(`${V6} 60 - - -`);
  });

  it("never throws, whatever the bytes, and stays within what a header can be", () => {
    const random = seededRandom(29);
    const isNumber = (value: number | undefined, most: number) => value === undefined || (value >= 0 && value <= most);
    const isPossible = ({ protocol, sourcePort, destinationPort, tcpFlags }: PacketHeader) =>
      isNumber(protocol, 255) && isNumber(sourcePort, 65_535) && isNumber(destinationPort, 65_535) && isNumber(tcpFlags, 255);
    let read = 0;
    for (let i = 0; i < 50_000; i++) {
      const data = Uint8Array.from({ length: Math.floor(random() * 130) }, () => Math.floor(random() * 256));
      if (data.length > 0) data[0] = (random() < 0.5 ? 0x40 : 0x60) | ((data[0] ?? 0) & 0xf);
      const header = parsePacket(data);
      if (header === undefined) continue;
      read++;
      if (!isPossible(header)) throw new Error(Buffer.from(data).toString("hex"));
    }
    expect(read).toBeGreaterThan(10_000);
  });
});
