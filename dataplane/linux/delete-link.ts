/**
 * Deletes a link and returns as soon as it is gone.
 *
 * The kernel deletes a link in two parts. Within a millisecond it removes the link with its peer, addresses and routes, and
 * announces that (RTM_DELLINK). The caller then waits some 20 ms for a grace period before the memory is freed
 * (net/core/dev.c, netdev_run_todo). So the deletion runs on a thread of its own and this file polls for the announcement:
 * the grace period overlaps with the next steps, other calls of the process go on, and a kernel that never returns blocks
 * none of them.
 */
import { TortieError } from "../../lib/errors/errors.ts";
import { startWrite } from "../../lib/system/background-write.ts";
import { NETLINK_ROUTE, NetlinkError, NetlinkSocket, RTMGRP_LINK } from "../netlink/socket.ts";
import { deleteRequest, getLink, isDeletionOf, type Link, type LinkKey } from "../rtnetlink/link.ts";

/** The kernel waits as long as another reference to the device exists; the DEL fails then and the runtime repeats it. */
export const DELETION_LIMIT_MS = 20_000;
const ENODEV = 19;
/** The announcement takes about a millisecond: the first polls come at every turn of the event loop, later ones less often. */
const LOOK = { eagerTurns: 50, firstDelayMs: 1, longestDelayMs: 20 };

/** Where a link is, and how it is to be deleted. */
export interface Deletion {
  readonly socket: NetlinkSocket;
  /** Another socket of the same namespace, which gets the news of its links (RTMGRP_LINK). */
  readonly monitor: NetlinkSocket;
  /** For messages: "in netns /run/netns/x", "on the host". */
  readonly where: string;
  readonly limitMs?: number;
}

/**
 * Deletes a link of any type, if there is one.
 * @returns whether there was one
 * @throws NetlinkError when the kernel refuses; TortieError `link-delete-timeout`
 */
export async function deleteLink(deletion: Deletion, key: LinkKey): Promise<boolean> {
  const link = getLink(deletion.socket, key);
  if (link === undefined) return false;
  try {
    await deleteObserved(deletion, link);
  } catch (error) {
    if (!(error instanceof NetlinkError) || error.errno !== ENODEV) throw error;
  }
  return true;
}

/** Deletes a link of the host, that is, of the namespace the thread is in. */
export async function deleteHostLink(socket: NetlinkSocket, key: LinkKey): Promise<boolean> {
  using monitor = NetlinkSocket.open(NETLINK_ROUTE, RTMGRP_LINK);
  return await deleteLink({ socket, monitor, where: "on the host" }, key);
}

async function deleteObserved({ socket, monitor, where, limitMs = DELETION_LIMIT_MS }: Deletion, { index, name }: Link): Promise<void> {
  const end = performance.now() + limitMs;
  const request = deleteRequest({ index });
  try {
    startWrite(socket.fd, socket.prepare(request));
  } catch {
    // No thread can be started (a limit on processes): a deletion without a time limit is better than none.
    socket.request(request);
    return;
  }
  for (let looks = 0; ; looks++) {
    if (monitor.news().some((message) => isDeletionOf(message, index))) return;
    // An answer before the news: the kernel refused, or the news was lost.
    if (socket.isAnswered()) return;
    if (performance.now() >= end) {
      throw new TortieError("link-delete-timeout", `timed out deleting device ${where}: ${name} is still there after ${limitMs / 1000} s`);
    }
    await pause(looks);
  }
}

/** Between two looks for the news. */
export async function pause(looks: number): Promise<void> {
  if (looks < LOOK.eagerTurns) return new Promise((resolve) => setImmediate(resolve));
  const delayMs = Math.min(LOOK.firstDelayMs * 2 ** Math.floor((looks - LOOK.eagerTurns) / 10), LOOK.longestDelayMs);
  return new Promise((resolve) => setTimeout(resolve, delayMs));
}
