/**
 * Reads a long dump on threads of the runtime. A table that is walked through for few answers, such as conntrack's, which all namespaces of
 * the machine share, keeps a thread within one system call for 10 to 80 ms. This thread goes on meanwhile, and between two parts.
 *
 * For dumps that a change does not disturb: a list that is read while it changes may have an entry twice, or not have one that came.
 */
import { read, write } from "node:fs";
import { promisify } from "node:util";
import { closeFile } from "../../lib/system/files.ts";
import { isInOtherNamespace } from "../../lib/system/netns.ts";
import {
  encodeMessage,
  type Message,
  NetlinkError,
  NLM_F_DUMP,
  NLM_F_REQUEST,
  NLMSG_DONE,
  NLMSG_ERROR,
  parseAcknowledgement,
  parseMessages,
} from "./message.ts";
import { openKernelSocket } from "./open-socket.ts";
import type { Request } from "./socket.ts";

/** Exceeds the largest datagram that the kernel makes of a dump (32 KiB, net/netlink/af_netlink.c). */
const PART_BYTES = 65536;
const PART_LIMIT_SECONDS = 10;
const SEQUENCE = 1;

const writeAside = promisify(write);
const readAside = promisify(read);

/**
 * Yields the parts of a dump, each as soon as it is there. Has a socket of its own: an answer that comes late disturbs nobody.
 * @throws NetlinkError; an error of `node:fs` when the kernel has nothing to say within 10 s
 */
export async function* dumpAside(protocol: number, request: Request): AsyncGenerator<readonly Message[]> {
  if (isInOtherNamespace()) throw new Error("a dump of the host cannot begin while this thread is in a sandbox");
  const fd = openKernelSocket(protocol, 0, PART_LIMIT_SECONDS);
  try {
    await writeAside(fd, encodeMessage({ ...request, flags: NLM_F_REQUEST | NLM_F_DUMP, sequence: SEQUENCE }));
    const buffer = new Uint8Array(PART_BYTES);
    for (;;) {
      const { bytesRead } = await readAside(fd, buffer, 0, buffer.length, null);
      const messages = parseMessages(buffer.slice(0, bytesRead));
      const end = messages.findIndex(({ type }) => type === NLMSG_DONE || type === NLMSG_ERROR);
      yield end < 0 ? messages : messages.slice(0, end);
      const last = messages[end];
      if (last === undefined) continue;
      const { errno, detail } = parseAcknowledgement(last);
      if (errno !== 0) throw new NetlinkError(errno, detail);
      return;
    }
  } finally {
    closeFile(fd);
  }
}
