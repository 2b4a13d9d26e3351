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
import { deleteRequest, getLink, isDeletionOf, type Link } from "../rtnetlink/link.ts";

/** The kernel waits as long as another reference to the device exists; the DEL fails then and the runtime repeats it. */
export const DELETION_LIMIT_MS = 20_000;
const ENODEV = 19;
/** The announcement takes about a millisecond: the first polls come at every turn of the event loop, later ones less often. */
const LOOK = { eagerTurns: 50, firstDelayMs: 1, longestDelayMs: 20 };

/** What a deletion takes: a socket for the request, which is answered late, and one for the news of the namespace's links. */
export interface DeletionSockets {
  readonly socket: NetlinkSocket;
  readonly monitor: NetlinkSocket;
}

/** Of the namespace that the thread is in. @throws NetlinkError */
export function openDeletion(): DeletionSockets & Disposable {
  using opened = new DisposableStack();
  const socket = opened.use(NetlinkSocket.open(NETLINK_ROUTE));
  const monitor = opened.use(NetlinkSocket.open(NETLINK_ROUTE, RTMGRP_LINK));
  const kept = opened.move();
  return { socket, monitor, [Symbol.dispose]: () => kept.dispose() };
}

export interface DeletionOptions {
  /** For messages: "in netns /run/netns/x", "on the host". */
  readonly where: string;
  readonly limitMs?: number | undefined;
}

/**
 * Deletes a link of any type, if there is one of this name.
 * @throws NetlinkError when the kernel refuses; TortieError `link-delete-timeout`
 */
export async function deleteLink(sockets: DeletionSockets, name: string, options: DeletionOptions): Promise<void> {
  const link = getLink(sockets.socket, { name });
  if (link !== undefined) await deleteFound(sockets, link, options);
}

/**
 * Deletes a link of the host, that is, of the namespace the thread is in, by its index.
 * @returns whether it was there
 * @throws as `deleteLink`
 */
export async function deleteHostLink(link: Pick<Link, "index" | "name">): Promise<boolean> {
  using sockets = openDeletion();
  return await deleteFound(sockets, link, { where: "on the host" });
}

async function deleteFound(sockets: DeletionSockets, link: Pick<Link, "index" | "name">, options: DeletionOptions): Promise<boolean> {
  try {
    await deleteObserved(sockets, link, options);
    return true;
  } catch (error) {
    if (!(error instanceof NetlinkError) || error.errno !== ENODEV) throw error;
    return false;
  }
}

async function deleteObserved(
  { socket, monitor }: DeletionSockets,
  { index, name }: Pick<Link, "index" | "name">,
  { where, limitMs = DELETION_LIMIT_MS }: DeletionOptions,
): Promise<void> {
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
