/** Says when links of the host change. Bun waits for the socket in its own loop, so nothing blocks and nothing polls. */
import { libc } from "../../lib/system/libc.ts";
import { openKernelSocket } from "./open-socket.ts";
import { NETLINK_ROUTE, RTMGRP_LINK } from "./socket.ts";

/** include/uapi/linux/netlink.h */
const SOL_NETLINK = 270;
const NETLINK_NO_ENOBUFS = 5;
const ANSWER_LIMIT_SECONDS = 10;

/**
 * Calls back whenever links have come, gone or changed. News that is lost for want of room is lost silently: look now and then besides.
 * @throws NetlinkError
 */
export async function watchLinks(onNews: () => void): Promise<Disposable> {
  const fd = openKernelSocket(NETLINK_ROUTE, RTMGRP_LINK, ANSWER_LIMIT_SECONDS);
  // ENOBUFS would end Bun's socket.
  libc().setsockopt(fd, SOL_NETLINK, NETLINK_NO_ENOBUFS, Int32Array.of(1), 4);
  const socket = await Bun.connect({ fd, socket: { data: onNews, error() {} } });
  return { [Symbol.dispose]: () => socket.terminate() };
}
