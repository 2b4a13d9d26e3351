/** The other side of a netlink socket, scripted: it says what the kernel does not say on demand. */
import { dlopen } from "bun:ffi";
import { closeSync, writeSync } from "node:fs";
import { encodeMessage, NLMSG_DONE, NLMSG_ERROR } from "../../dataplane/netlink/message.ts";
import { NetlinkSocket } from "../../dataplane/netlink/socket.ts";

const { symbols: libc } = dlopen("libc.so.6", { socketpair: { args: ["i32", "i32", "i32", "ptr"], returns: "i32" } });
const [AF_UNIX, SOCK_DGRAM] = [1, 2];
/** include/uapi/linux/netlink.h */
const NLM_F_MULTI = 0x2;
/** A question about a link. */
export const REQUEST = { type: 18, payload: new Uint8Array(16) };

/** What it says is there before it is asked, so that a question can wait for its answer on this one thread. */
export class Peer implements Disposable {
  readonly socket: NetlinkSocket;
  readonly #fd: number;
  #isOpen = true;
  /** Of the request that the socket sends next. */
  next: number;

  /** @param sequence the number before that of the first request; random when absent */
  constructor(sequence?: number) {
    const pair = new Int32Array(2);
    if (libc.socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) !== 0) throw new Error("no pair of sockets");
    const [own = -1, other = -1] = pair;
    this.socket = new NetlinkSocket(own, sequence);
    this.#fd = other;
    this.next = new DataView(this.socket.prepare(REQUEST).buffer).getUint32(8, true) + 1;
  }

  says(sequence: number, type: number, payload: Uint8Array, flags = 0): void {
    writeSync(this.#fd, encodeMessage({ type, flags, sequence, payload }));
  }

  /** One datagram of several messages. */
  sends(datagram: Uint8Array): void {
    writeSync(this.#fd, datagram);
  }

  acknowledges(sequence: number, errno: number): void {
    this.says(sequence, NLMSG_ERROR, new Uint8Array(Int32Array.of(-errno, 0, 0, 0, 0).buffer));
  }

  /** A list with nothing in it. */
  listsNothing(sequence: number): void {
    this.says(sequence, NLMSG_DONE, new Uint8Array(4), NLM_F_MULTI);
  }

  /** Whoever sends to it from now on is refused. */
  hangUp(): void {
    if (this.#isOpen) closeSync(this.#fd);
    this.#isOpen = false;
  }

  [Symbol.dispose](): void {
    this.socket[Symbol.dispose]();
    this.hangUp();
  }
}
