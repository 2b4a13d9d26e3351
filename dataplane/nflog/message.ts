/**
 * Encodes what binds a group of the kernel's packet log, and decodes what comes over it (include/uapi/linux/netfilter/nfnetlink_log.h). Its
 * numbers are in network order.
 */
import {
  type Attribute,
  bytes,
  type Message,
  NetlinkFormatError,
  parseMessages,
  parseStructure,
  readText,
  readU32be,
  structure,
  u8,
  u32be,
} from "../netlink/message.ts";
import type { Request } from "../netlink/socket.ts";
import { type PacketHeader, parsePacket } from "./packet.ts";

/** include/uapi/linux/netfilter/nfnetlink.h: the family's number is the upper byte of a message's type. */
const NFNL_SUBSYS_ULOG = 4;
const NFULNL_MSG_PACKET = NFNL_SUBSYS_ULOG << 8;
const NFULNL_MSG_CONFIG = (NFNL_SUBSYS_ULOG << 8) | 1;
/** struct nfgenmsg: family, version, and the group. */
const NFGENMSG_BYTES = 4;

const NFULA_CFG_CMD = 1;
const NFULNL_CFG_CMD_BIND = 1;
const NFULA_CFG_MODE = 2;
const NFULNL_COPY_PACKET = 2;
const NFULA_CFG_NLBUFSIZ = 3;
const NFULA_CFG_TIMEOUT = 4;
const NFULA_CFG_QTHRESH = 5;
const NFULA_CFG_FLAGS = 6;
/** Numbers the packets, so that a gap says how many were lost. */
const NFULNL_CFG_F_SEQ = 1;

const NFULA_IFINDEX_INDEV = 4;
const NFULA_IFINDEX_OUTDEV = 5;
const NFULA_PAYLOAD = 9;
const NFULA_PREFIX = 10;
const NFULA_SEQ = 12;

/** What was logged of one packet. */
export interface LoggedPacket {
  /** The text of the rule that logged it. */
  readonly prefix: string;
  /** Index of the interface that it came in by; `undefined`: it was made here. */
  readonly inInterface: number | undefined;
  /** Index of the interface that it was to leave by; `undefined`: it was for this host. */
  readonly outInterface: number | undefined;
  /** Counts the packets of the group, modulo 2^32. */
  readonly sequence: number | undefined;
  /** `undefined`: no IP packet, or less than its header. */
  readonly header: PacketHeader | undefined;
}

export interface GroupSettings {
  /** How much of each packet the kernel copies. */
  readonly copyBytes: number;
  /** Size of the kernel's buffer, which it sends when it is full, */
  readonly bufferBytes: number;
  /** or has so many packets, */
  readonly packets: number;
  /** or when so much time has passed since its first one. The kernel counts hundredths of a second. */
  readonly hundredths: number;
}

/** Binds the group to the socket. The kernel refuses it with EBUSY or EPERM where another socket has it. */
export function bindRequest(group: number): Request {
  return configRequest(group, [u8(NFULA_CFG_CMD, NFULNL_CFG_CMD_BIND)]);
}

export function settingsRequest(group: number, { copyBytes, bufferBytes, packets, hundredths }: GroupSettings): Request {
  // struct nfulnl_msg_config_mode is packed: four bytes, the mode, and one byte of padding.
  const mode = new DataView(new ArrayBuffer(6));
  mode.setUint32(0, copyBytes, false);
  mode.setUint8(4, NFULNL_COPY_PACKET);
  const flags = new DataView(new ArrayBuffer(2));
  flags.setUint16(0, NFULNL_CFG_F_SEQ, false);
  return configRequest(group, [
    bytes(NFULA_CFG_MODE, new Uint8Array(mode.buffer)),
    u32be(NFULA_CFG_NLBUFSIZ, bufferBytes),
    u32be(NFULA_CFG_TIMEOUT, hundredths),
    u32be(NFULA_CFG_QTHRESH, packets),
    bytes(NFULA_CFG_FLAGS, new Uint8Array(flags.buffer)),
  ]);
}

function configRequest(group: number, attributes: readonly Attribute[]): Request {
  return { type: NFULNL_MSG_CONFIG, payload: structure(NFGENMSG_BYTES, (view) => view.setUint16(2, group, false), attributes) };
}

/** Reads one datagram. What is no logged packet is passed over. @returns `undefined` when the bytes are not what the kernel sends */
export function parseLog(data: Uint8Array): readonly LoggedPacket[] | undefined {
  try {
    return parseMessages(data).flatMap((message) => (message.type === NFULNL_MSG_PACKET ? [loggedPacket(message)] : []));
  } catch (error) {
    if (error instanceof NetlinkFormatError) return undefined;
    throw error;
  }
}

/** @throws NetlinkFormatError */
function loggedPacket(message: Message): LoggedPacket {
  const { attributes } = parseStructure(message, NFGENMSG_BYTES);
  const packet = attributes.get(NFULA_PAYLOAD);
  return {
    prefix: readText(attributes.get(NFULA_PREFIX)) ?? "",
    inInterface: readU32be(attributes.get(NFULA_IFINDEX_INDEV)),
    outInterface: readU32be(attributes.get(NFULA_IFINDEX_OUTDEV)),
    sequence: readU32be(attributes.get(NFULA_SEQ)),
    header: packet && parsePacket(packet),
  };
}
