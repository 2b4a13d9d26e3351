/** Packets made by hand, from the IP header on, for what no socket of ours sends: wrong, forged or foreign ones, and SCTP. */
import { bytesOf } from "../../lib/addresses/address.ts";
import { address } from "./addresses.ts";

interface Ends {
  readonly from: string;
  readonly to: string;
}

export const PROTOCOLS = { icmp: 1, tcp: 6, udp: 17, icmpv6: 58, sctp: 132 } as const;

/** An IP packet of the family that its addresses have. */
export function ip(
  { from, to }: Ends,
  protocol: number,
  payload: Uint8Array,
  options: { readonly hops?: number; readonly id?: number; readonly fragment?: number } = {},
): Buffer {
  const { hops = 64 } = options;
  const [source, destination] = [octets(from), octets(to)];
  if (source.length === 4) {
    const header = Buffer.from([0x45, 0, 0, 0, 0, 0, 0, 0, hops, protocol, 0, 0, ...source, ...destination]);
    header.writeUInt16BE(20 + payload.length, 2);
    header.writeUInt16BE(options.id ?? 1, 4);
    header.writeUInt16BE(options.fragment ?? 0, 6);
    header.writeUInt16BE(checksum(header), 10);
    return Buffer.concat([header, payload]);
  }
  const header = Buffer.from([0x60, 0, 0, 0, 0, 0, protocol, hops, ...source, ...destination]);
  header.writeUInt16BE(payload.length, 4);
  return Buffer.concat([header, payload]);
}

export function udp(ends: Ends, sourcePort: number, port: number, data: Uint8Array): Buffer {
  const segment = Buffer.concat([Buffer.alloc(8), data]);
  segment.writeUInt16BE(sourcePort, 0);
  segment.writeUInt16BE(port, 2);
  segment.writeUInt16BE(segment.length, 4);
  segment.writeUInt16BE(checksum(pseudo(ends, PROTOCOLS.udp, segment)) || 0xffff, 6);
  return segment;
}

const FLAGS = { fin: 1, syn: 2, rst: 4, ack: 16 } as const;

export function tcp(ends: Ends, sourcePort: number, port: number, ...flags: readonly (keyof typeof FLAGS)[]): Buffer {
  const segment = Buffer.alloc(20);
  segment.writeUInt16BE(sourcePort, 0);
  segment.writeUInt16BE(port, 2);
  segment.writeUInt32BE(1000, 4);
  segment.writeUInt32BE(flags.includes("ack") ? 2000 : 0, 8);
  segment[12] = 5 << 4;
  segment[13] = flags.reduce((bits, flag) => bits | FLAGS[flag], 0);
  segment.writeUInt16BE(8192, 14);
  segment.writeUInt16BE(checksum(pseudo(ends, PROTOCOLS.tcp, segment)), 16);
  return segment;
}

/** The first packet of an SCTP association: INIT, with its CRC32c, or a wrong one (RFC 9260). */
export function sctpInit(sourcePort: number, port: number, isWrong = false): Buffer {
  const packet = Buffer.alloc(32);
  packet.writeUInt16BE(sourcePort, 0);
  packet.writeUInt16BE(port, 2);
  packet[12] = 1;
  packet.writeUInt16BE(20, 14);
  packet.writeUInt32BE(0x01020304, 16);
  packet.writeUInt32BE(65536, 20);
  packet.writeUInt16BE(1, 24);
  packet.writeUInt16BE(1, 26);
  packet.writeUInt32BE(1, 28);
  packet.writeUInt32LE((crc32c(packet) ^ (isWrong ? 1 : 0)) >>> 0, 8);
  return packet;
}

/** ICMPv6 with its checksum; `rest` is everything behind the checksum. */
export function icmp6(ends: Ends, type: number, code: number, rest: Uint8Array): Buffer {
  const message = Buffer.concat([Buffer.from([type, code, 0, 0]), rest]);
  message.writeUInt16BE(checksum(pseudo(ends, PROTOCOLS.icmpv6, message)), 2);
  return message;
}

export function icmp4(type: number, code: number, rest: Uint8Array): Buffer {
  const message = Buffer.concat([Buffer.from([type, code, 0, 0]), rest]);
  message.writeUInt16BE(checksum(message), 2);
  return message;
}

export function octets(text: string): Uint8Array {
  return bytesOf(address(text));
}

function pseudo({ from, to }: Ends, protocol: number, segment: Buffer): Buffer {
  const length = Buffer.alloc(8);
  length.writeUInt32BE(segment.length, 0);
  length[7] = protocol;
  return Buffer.concat([octets(from), octets(to), length, segment]);
}

function checksum(data: Buffer): number {
  let sum = 0;
  for (let at = 0; at < data.length; at += 2) sum += (data[at] ?? 0) * 256 + (data[at + 1] ?? 0);
  while (sum > 0xffff) sum = (sum & 0xffff) + Math.floor(sum / 65536);
  return ~sum & 0xffff;
}

function crc32c(data: Buffer): number {
  let crc = 0xffffffff;
  for (const octet of data) {
    crc ^= octet;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ ((crc & 1) * 0x82f63b78);
  }
  return ~crc >>> 0;
}
