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
import { nextTurn } from "../../lib/system/waiting.ts";
import type { HostSockets } from "../netlink/host-sockets.ts";
import { NetlinkError } from "../netlink/message.ts";
import { NETLINK_ROUTE, type Netlink, NetlinkSocket, type Request, RTMGRP_LINK } from "../netlink/socket.ts";
import {
  deleteGroupRequest,
  deleteRequest,
  freshDeletionGroup,
  getLink,
  isDeletionOf,
  type Link,
  setLinkGroup,
} from "../rtnetlink/link.ts";

/** Limits the wait: the kernel waits as long as another reference to the device exists; the DEL then fails and the runtime repeats it. */
const DELETION_LIMIT_MS = 20_000;
const ENODEV = 19;
/** Sets the pace: the announcement takes a millisecond, so the first polls come at every turn of the event loop, later ones less often. */
const LOOK = { eagerTurns: 50, firstDelayMs: 1, longestDelayMs: 20 };

/** Has what a deletion takes: a socket for the request, which is answered late, and one for the news of the namespace's links. */
interface DeletionSockets {
  readonly socket: NetlinkSocket;
  readonly monitor: NetlinkSocket;
}

/** @throws NetlinkError */
function openDeletion(): DeletionSockets & Disposable {
  using opened = new DisposableStack();
  const socket = opened.use(NetlinkSocket.open(NETLINK_ROUTE));
  const monitor = opened.use(NetlinkSocket.open(NETLINK_ROUTE, RTMGRP_LINK));
  const kept = opened.move();
  return { socket, monitor, [Symbol.dispose]: () => kept.dispose() };
}

/**
 * Deletes a link of the host, that is, of the namespace the thread is in, by its index.
 * @returns whether it was there
 * @throws NetlinkError when the kernel refuses; TortieError `link-delete-timeout`
 */
export async function deleteHostLink(link: Pick<Link, "index" | "name">): Promise<boolean> {
  using sockets = openDeletion();
  return await deleteObserved(sockets, link);
}

/** As `deleteHostLink`, on these sockets. */
export async function deleteObserved(sockets: DeletionSockets, { index, name }: Pick<Link, "index" | "name">): Promise<boolean> {
  const { socket } = sockets;
  const request = deleteRequest(index);
  try {
    // Without a thread (a limit on processes), a deletion without a time limit is better than none.
    if (!isStarted(socket, request)) socket.request(request);
    else if ((await untilGone(sockets, [index], () => undefined)).size > 0) throw stillThere(name);
    return true;
  } catch (error) {
    if (!(error instanceof NetlinkError) || error.errno !== ENODEV) throw error;
    return false;
  }
}

/** Sends a request on a thread of its own. @returns whether one can be started */
function isStarted(socket: NetlinkSocket, request: Request): boolean {
  try {
    startWrite(socket.fd, socket.prepare(request));
    return true;
  } catch {
    return false;
  }
}

/**
 * Waits until the links of a deletion under way are gone.
 * @param gone called with the index of each as soon as it is
 * @returns those that are still there when the time is over
 * @throws NetlinkError when the kernel refuses
 */
async function untilGone(
  { socket, monitor }: DeletionSockets,
  indexes: Iterable<number>,
  gone: (index: number) => void,
): Promise<ReadonlySet<number>> {
  const end = performance.now() + DELETION_LIMIT_MS;
  const left = new Set(indexes);
  for (let looks = 0; ; looks++) {
    const news = monitor.news();
    for (const index of left) {
      if (!news.some((message) => isDeletionOf(message, index))) continue;
      left.delete(index);
      gone(index);
    }
    if (left.size === 0) return left;
    // An answer before the news: the kernel refused, or some of the news was lost.
    if (socket.isAnswered()) {
      for (const index of left) gone(index);
      return new Set();
    }
    if (performance.now() >= end) return left;
    await pause(looks);
  }
}

/** Waits between two looks for the news. */
export async function pause(looks: number): Promise<void> {
  if (looks < LOOK.eagerTurns) return nextTurn();
  const delayMs = Math.min(LOOK.firstDelayMs * 2 ** Math.floor((looks - LOOK.eagerTurns) / 10), LOOK.longestDelayMs);
  return new Promise((resolve) => setTimeout(resolve, delayMs));
}

/** Describes a link whose deletion a call waits for. */
interface Leaving {
  readonly link: Pick<Link, "index" | "name">;
  /** Tells just before whether it still is what was to be deleted. */
  readonly isRight: (link: Link) => boolean;
  /** Told whether this deletion removed it: it may have been gone before, or not the right one any more. */
  readonly gone: (isDeleted: boolean) => void;
  readonly failed: (error: unknown) => void;
}

/**
 * Deletions of host links that come close together are one request (design §4): the links get a group of their own (IFLA_GROUP) and the
 * group is deleted, so that the kernel waits for one grace period and not for one each. 60 pairs cost 33 ms so, against 1,522 ms one after
 * the other.
 *
 * For a process that serves many calls. A link that comes alone is deleted at once and by itself.
 */
export class JoinedDeletions {
  readonly #host: Pick<HostSockets, "route">;
  #waiting: Leaving[] = [];
  #isRunning = false;

  constructor(host: Pick<HostSockets, "route">) {
    this.#host = host;
  }

  /**
   * Deletes a link of the host, if it still is the right one.
   * @returns whether it did
   * @throws NetlinkError when the kernel refuses; TortieError `link-delete-timeout`
   */
  delete(link: Pick<Link, "index" | "name">, isRight: (link: Link) => boolean): Promise<boolean> {
    const { promise, resolve, reject } = Promise.withResolvers<boolean>();
    this.#waiting.push({ link, isRight, gone: resolve, failed: reject });
    if (!this.#isRunning) void this.#run();
    return promise;
  }

  /** Requests that arrive while one batch is deleted form the next one. */
  async #run(): Promise<void> {
    this.#isRunning = true;
    // Requests of the same turn of the event loop form one batch.
    await nextTurn();
    while (this.#waiting.length > 0) {
      const batch = this.#waiting;
      this.#waiting = [];
      await deleteBatch(this.#host.route, batch);
    }
    this.#isRunning = false;
  }
}

/** Deletes a batch and never throws: each request of the batch gets an outcome of its own. */
async function deleteBatch(host: Netlink, batch: readonly Leaving[]): Promise<void> {
  try {
    if (batch.length === 1) return await eachAlone(host, batch);
    const group = freshDeletionGroup();
    const joined = batch.filter((leaving) => isMarked(host, leaving, group));
    if (joined.length === 0) return;
    if (!(await deleteGroup(group, joined))) await eachAlone(host, joined);
  } catch (error) {
    for (const { failed } of batch) failed(error);
  }
}

/** @returns whether the link is in the group now; a link that is gone, or no longer the right one, is finished */
function isMarked(socket: Netlink, { link: { index }, isRight, gone, failed }: Leaving, group: number): boolean {
  try {
    const link = getLink(socket, { index });
    if (link !== undefined && isRight(link)) {
      setLinkGroup(socket, index, group);
      return true;
    }
    gone(false);
  } catch (error) {
    if (error instanceof NetlinkError && error.errno === ENODEV) gone(false);
    else failed(error);
  }
  return false;
}

/** @returns whether the kernel took the request; each link is deleted by itself otherwise */
async function deleteGroup(group: number, joined: readonly Leaving[]): Promise<boolean> {
  using sockets = openDeletion();
  if (!isStarted(sockets.socket, deleteGroupRequest(group))) return false;
  // Two calls may wait for one link.
  const waiting = Map.groupBy(joined, ({ link }) => link.index);
  try {
    const left = await untilGone(sockets, waiting.keys(), (index) => {
      for (const { gone } of waiting.get(index) ?? []) gone(true);
    });
    for (const { link, failed } of joined) if (left.has(link.index)) failed(stillThere(link.name));
    return true;
  } catch (error) {
    if (error instanceof NetlinkError) return false;
    throw error;
  }
}

async function eachAlone(socket: Netlink, batch: readonly Leaving[]): Promise<void> {
  await Promise.all(
    batch.map(async ({ link: { index }, isRight, gone, failed }) => {
      try {
        const link = getLink(socket, { index });
        gone(link !== undefined && isRight(link) && (await deleteHostLink(link)));
      } catch (error) {
        failed(error);
      }
    }),
  );
}

function stillThere(name: string): TortieError {
  const seconds = DELETION_LIMIT_MS / 1000;
  return new TortieError("link-delete-timeout", `timed out deleting device on the host: ${name} is still there after ${seconds} s`);
}
