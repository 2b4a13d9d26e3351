/**
 * Keeps the sockets to the kernel of the process's own network namespace, one for each protocol, opened at their first use and kept: an
 * executable for its one call, the agent for its life. Opening a socket costs seven system calls, and closing one that has changed nftables
 * waits until the kernel has freed what was replaced.
 *
 * A request is over when its function returns, so any number of calls may share a socket. What is answered later, such as the deletion of a
 * link on another thread, has a socket of its own.
 */
import { isInOtherNamespace } from "../../lib/system/netns.ts";
import type { Message } from "./message.ts";
import { NETLINK_NETFILTER, NETLINK_ROUTE, type Netlink, NetlinkSocket, type Request } from "./socket.ts";

export class HostSockets implements Disposable {
  readonly #route: KeptSocket;
  readonly #netfilter: KeptSocket;

  /** @param open makes a socket to the kernel; tests give another */
  constructor(open: (protocol: number) => NetlinkSocket = openOutside) {
    this.#route = new KeptSocket(() => open(NETLINK_ROUTE));
    this.#netfilter = new KeptSocket(() => open(NETLINK_NETFILTER));
  }

  /** Serves links, addresses, routes and neighbours. */
  get route(): Netlink {
    return this.#route;
  }

  /** Serves nftables. */
  get netfilter(): Netlink {
    return this.#netfilter;
  }

  /** Closes the sockets; later requests fail. */
  [Symbol.dispose](): void {
    this.#route[Symbol.dispose]();
    this.#netfilter[Symbol.dispose]();
  }
}

/**
 * Replaces its socket where the last request was cut off: nothing that is left of that can then be taken for an answer to the next one, or
 * stand in its way. Replaced between two requests only, so that whoever holds it may go on with it after an `await`.
 */
class KeptSocket implements Netlink, Disposable {
  readonly #open: () => NetlinkSocket;
  #socket: NetlinkSocket | undefined;
  #isDisposed = false;

  constructor(open: () => NetlinkSocket) {
    this.#open = open;
  }

  request(request: Request): Message[] {
    return this.#usable().request(request);
  }

  dump(request: Request, most?: number): Message[] {
    return this.#usable().dump(request, most);
  }

  batch(requests: readonly Request[]): void {
    this.#usable().batch(requests);
  }

  [Symbol.dispose](): void {
    this.#isDisposed = true;
    this.#socket?.[Symbol.dispose]();
    this.#socket = undefined;
  }

  #usable(): NetlinkSocket {
    if (this.#isDisposed) throw new Error("the sockets to the kernel are closed: nothing more is asked");
    if (this.#socket?.isUsable === true) return this.#socket;
    this.#socket?.[Symbol.dispose]();
    this.#socket = undefined;
    this.#socket = this.#open();
    return this.#socket;
  }
}

/** Refuses to open in a sandbox: a socket stays in the namespace in which it was opened, and would be kept for the host's. */
function openOutside(protocol: number): NetlinkSocket {
  if (isInOtherNamespace()) throw new Error("a socket of the host cannot be opened while this thread is in a sandbox");
  return NetlinkSocket.open(protocol);
}
