/** Netlink messages and acknowledgements (include/uapi/linux/netlink.h, struct nlmsghdr and nlmsgerr). */
import { aligned, attributeMap, NetlinkFormatError, readText } from "./attribute.ts";

const HEADER = 16;

export const NLMSG_ERROR = 2;
export const NLMSG_DONE = 3;

export const NLM_F_REQUEST = 0x1;
export const NLM_F_ACK = 0x4;
/** A dump was disturbed by a change: its parts do not fit together. */
export const NLM_F_DUMP_INTR = 0x10;
export const NLM_F_DUMP = 0x300;
export const NLM_F_REPLACE = 0x100;
export const NLM_F_EXCL = 0x200;
export const NLM_F_CREATE = 0x400;
export const NLM_F_APPEND = 0x800;
const NLM_F_CAPPED = 0x100;
const NLM_F_ACK_TLVS = 0x200;
const NLMSGERR_ATTR_MSG = 1;

export interface Message {
  readonly type: number;
  readonly flags: number;
  readonly sequence: number;
  /** Everything after the header: a structure of fixed length, then attributes. */
  readonly payload: Uint8Array;
}

/** One message as bytes, padded; the port is left to the kernel. */
export function encodeMessage(message: Message): Uint8Array {
  const result = new Uint8Array(HEADER + aligned(message.payload.length));
  const view = new DataView(result.buffer);
  view.setUint32(0, HEADER + message.payload.length, true);
  view.setUint16(4, message.type, true);
  view.setUint16(6, message.flags, true);
  view.setUint32(8, message.sequence, true);
  result.set(message.payload, HEADER);
  return result;
}

/**
 * The messages of one datagram; payloads are views into `data`.
 * @throws NetlinkFormatError when a length is shorter than a header or longer than what is there
 */
export function parseMessages(data: Uint8Array): Message[] {
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  const result: Message[] = [];
  for (let at = 0; at < data.length; ) {
    const length = data.length - at < HEADER ? 0 : view.getUint32(at, true);
    if (length < HEADER || length > data.length - at) {
      throw new NetlinkFormatError(`netlink message at ${at} of ${data.length} bytes has length ${length}`);
    }
    result.push({
      type: view.getUint16(at + 4, true),
      flags: view.getUint16(at + 6, true),
      sequence: view.getUint32(at + 8, true),
      payload: data.subarray(at + HEADER, at + length),
    });
    at += aligned(length);
  }
  return result;
}

export interface Acknowledgement {
  /** 0: the request was carried out. */
  readonly errno: number;
  /** What the kernel says about it in words (NETLINK_EXT_ACK); often empty. */
  readonly detail: string;
}

/** Reads a message of type NLMSG_ERROR, or the NLMSG_DONE at the end of a dump, which carries an error number of its own. */
export function parseAcknowledgement(message: Message): Acknowledgement {
  const { payload } = message;
  if (message.type === NLMSG_DONE && payload.length < 4) return { errno: 0, detail: "" };
  if (payload.length < (message.type === NLMSG_DONE ? 4 : 4 + HEADER)) {
    throw new NetlinkFormatError(`netlink acknowledgement has ${payload.length} bytes`);
  }
  const view = new DataView(payload.buffer, payload.byteOffset, payload.length);
  const errno = Math.abs(view.getInt32(0, true));
  if ((message.flags & NLM_F_ACK_TLVS) === 0) return { errno, detail: "" };
  const request = message.type === NLMSG_DONE ? 0 : (message.flags & NLM_F_CAPPED) !== 0 ? HEADER : aligned(view.getUint32(4, true));
  const attributes = attributeMap(payload.subarray(Math.min(4 + request, payload.length)));
  return { errno, detail: readText(attributes.get(NLMSGERR_ATTR_MSG)) ?? "" };
}
