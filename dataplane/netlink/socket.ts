/**
 * Holds one conversation with the kernel: requests with acknowledgements, dumps, and batches. A socket stays in the network
 * namespace in which it was opened, so each namespace has a socket of its own and callers need not enter the namespace.
 *
 * Requests are synchronous: the kernel executes one within send(2), and its answer is there when send returns. The
 * deletion of a link takes longer; another thread sends it (`prepare`), and the caller polls (`isAnswered`, `news`).
 *
 * The socket accepts messages from the kernel only. It is connected to the kernel's port, which is 0 (netlink(7)), so other
 * programs cannot send to it directly. They can still send to a group that it listens to; the sender's port tells those
 * messages apart, and sequence numbers start at a random value.
 */
import { closeFile } from "../../lib/system/files.ts";
import { lastErrno, libc } from "../../lib/system/libc.ts";
import {
  DumpTooLargeError,
  encodeMessage,
  type Message,
  NetlinkError,
  NLM_F_ACK,
  NLM_F_DUMP,
  NLM_F_DUMP_INTR,
  NLM_F_REQUEST,
  NLMSG_DONE,
  NLMSG_ERROR,
  parseAcknowledgement,
  parseMessages,
} from "./message.ts";
import { makeRoomToSend, openKernelSocket, SOCKADDR_BYTES } from "./open-socket.ts";

/** include/linux/socket.h, include/uapi/linux/netlink.h, include/uapi/asm-generic/socket.h */
const MSG_TRUNC = 0x20;
const MSG_DONTWAIT = 0x40;
const EINTR = 4;
const EAGAIN = 11;
const EMSGSIZE = 90;
const ENOBUFS = 105;
const ECANCELED = 125;
/** Indexes struct sockaddr_nl as words: nl_pid is the second. */
const SENDER_PORT = 1;
/** Leaves half of all numbers to count up from the first, which is random. */
const FIRST_SEQUENCE_LIMIT = 2 ** 31;
/** Retires a socket that comes so close to the largest number. The room is for one batch, which has some thousand at most. */
const LAST_SEQUENCE = 2 ** 32 - 2 ** 20;

export const NETLINK_ROUTE = 0;
export const NETLINK_NETFILTER = 12;
/** Changes of links (include/uapi/linux/rtnetlink.h). */
export const RTMGRP_LINK = 1;

/** Masks the kind of a request: 0 makes, 1 deletes, 2 asks, 3 changes (net/core/rtnetlink.c); other families use the upper byte. */
const KIND_MASK = 0xff03;
const RTNETLINK_GET = 2;

/**
 * Answers to single requests and news of links are below 2 KiB, but for links to which somebody gave hundreds of other names; a larger
 * buffer costs 16 page faults a socket, ten microseconds.
 */
const ANSWER_BYTES = 8192;
/** Exceeds the largest datagram the kernel makes of a dump (32 KiB, net/netlink/af_netlink.c). */
const DUMP_BYTES = 65536;
/** Ends a wait that would otherwise be for ever: the answer is there when send(2) returns. */
const ANSWER_LIMIT_SECONDS = 10;
/**
 * Limits what one look at the news reads. Whoever may send to the group, or rename a link of the namespace in a loop, can add news as fast
 * as it is read; a look that read all of them would not end.
 */
const MOST_NEWS_A_LOOK = 64;
/** Limits the tries of a dump that changes disturb; each reads all of it, and a table that changes that often is not worth a tenth. */
const DUMP_TRIES = 10;

/** Says what to ask: a message without its sequence number and the flags that every request has. */
export interface Request {
  readonly type: number;
  readonly flags?: number;
  readonly payload: Uint8Array;
}

/** Requests that are answered before the call returns. */
export interface Netlink {
  /** Has one request carried out and returns what comes with it: nothing for a change, one message for a "get". @throws NetlinkError */
  request(request: Request): Message[];
  /**
   * Returns everything a dump has; it is begun again when a change disturbed it.
   * @param most number of messages that are read at most, over all tries
   * @throws DumpTooLargeError when there are more; NetlinkError
   */
  dump(request: Request, most?: number): Message[];
  /**
   * Sends several requests as one datagram and waits for the acknowledgement of each that asks for one.
   * nf_tables carries such a batch out as a whole or not at all, and may put the error at any of its messages.
   * @throws NetlinkError the first refusal
   */
  batch(requests: readonly Request[]): void;
}

export class NetlinkSocket implements Netlink, Disposable {
  readonly #fd: number;
  #buffer = new Uint8Array(ANSWER_BYTES);
  readonly #sender = new Uint32Array(SOCKADDR_BYTES / 4);
  readonly #senderLength = new Uint32Array(1);
  #sequence: number;
  #isOpen = true;
  /** Says that the last request was answered to its end: with success, with a refusal, with all parts of a dump. */
  #isSettled = true;

  /**
   * @param fd a datagram socket whose other side speaks netlink; `open` makes one to the kernel
   * @param sequence the number before that of the first request
   */
  constructor(fd: number, sequence = Math.floor(Math.random() * FIRST_SEQUENCE_LIMIT)) {
    this.#fd = fd;
    this.#sequence = sequence;
  }

  /**
   * @param groups bit mask of the groups whose news `news()` has (RTMGRP_*)
   * @throws NetlinkError
   */
  static open(protocol: number, groups = 0): NetlinkSocket {
    return new NetlinkSocket(openKernelSocket(protocol, groups, ANSWER_LIMIT_SECONDS));
  }

  /** Serves calls that go around this class, such as a write on another thread. */
  get fd(): number {
    return this.#fd;
  }

  /**
   * Tells whether the next request can be made on it. After one that was cut off (no answer in time, an answer lost for want of room, a
   * dump that was not read to its end) the kernel may still be at that one.
   */
  get isUsable(): boolean {
    return this.#isOpen && this.#isSettled && this.#sequence < LAST_SEQUENCE;
  }

  /** Encodes a request with an acknowledgement, for callers that send it themselves; `isAnswered()` then says when it has come. */
  prepare(request: Request): Uint8Array {
    return encodeMessage({ ...request, flags: (request.flags ?? 0) | NLM_F_REQUEST | NLM_F_ACK, sequence: ++this.#sequence });
  }

  /** Tells whether the kernel has acknowledged the request prepared last; does not wait. @throws NetlinkError when the kernel refused it */
  isAnswered(): boolean {
    for (let messages = this.#receive(MSG_DONTWAIT); messages !== undefined; messages = this.#receive(MSG_DONTWAIT)) {
      for (const message of messages) {
        if (message.sequence !== this.#sequence || message.type !== NLMSG_ERROR) continue;
        assertDone(message);
        return true;
      }
    }
    return false;
  }

  request(request: Request): Message[] {
    try {
      return this.#ask(request);
    } catch (error) {
      const isTooLong = error instanceof NetlinkError && error.errno === EMSGSIZE;
      if (!isTooLong || (request.type & KIND_MASK) !== RTNETLINK_GET) throw error;
      // There is room for the answer now, and a question may be asked again.
      return this.#ask(request);
    }
  }

  #ask(request: Request): Message[] {
    this.#isSettled = false;
    this.#send(this.prepare(request));
    return this.#collect(this.#sequence, (message) => message.type === NLMSG_ERROR);
  }

  dump(request: Request, most = Number.POSITIVE_INFINITY): Message[] {
    let left = most;
    for (let tries = 1; ; tries++) {
      const sequence = ++this.#sequence;
      this.#isSettled = false;
      if (this.#buffer.length < DUMP_BYTES) this.#buffer = new Uint8Array(DUMP_BYTES);
      this.#send(encodeMessage({ ...request, flags: (request.flags ?? 0) | NLM_F_REQUEST | NLM_F_DUMP, sequence }));
      let isDisturbed = false;
      const messages = this.#collect(sequence, (message) => {
        isDisturbed ||= (message.flags & NLM_F_DUMP_INTR) !== 0;
        if (left-- < 0) throw new DumpTooLargeError(most);
        return message.type === NLMSG_DONE || message.type === NLMSG_ERROR;
      });
      if (!isDisturbed) return messages;
      if (tries === DUMP_TRIES) throw new NetlinkError(EINTR, `the list changed while it was read, ${DUMP_TRIES} times`);
    }
  }

  batch(requests: readonly Request[]): void {
    this.#isSettled = false;
    const first = this.#sequence + 1;
    const encoded = requests.map((request) =>
      encodeMessage({ ...request, flags: (request.flags ?? 0) | NLM_F_REQUEST, sequence: ++this.#sequence }),
    );
    const waiting = new Set(requests.flatMap((request, index) => (((request.flags ?? 0) & NLM_F_ACK) !== 0 ? [first + index] : [])));
    const datagram = Buffer.concat(encoded);
    makeRoomToSend(this.#fd, datagram.length);
    this.#send(datagram);
    let refusal: NetlinkError | undefined;
    while (waiting.size > 0) {
      for (const message of this.#await()) {
        if (message.type !== NLMSG_ERROR || message.sequence < first) continue;
        const { errno, detail } = parseAcknowledgement(message);
        if (errno !== 0 && (refusal === undefined || refusal.errno === ECANCELED)) refusal = new NetlinkError(errno, detail);
        waiting.delete(message.sequence);
      }
      // Of a batch that is refused as a whole only its own header is answered.
      if (refusal !== undefined) break;
    }
    this.#isSettled = true;
    if (refusal !== undefined) throw refusal;
  }

  /**
   * News that has come since the last call; does not wait. One look reads a bounded part, and the next one goes on there. News that was too
   * much for the socket is lost. @throws NetlinkError
   */
  news(): Message[] {
    const result: Message[] = [];
    for (let looks = 0; looks < MOST_NEWS_A_LOOK; looks++) {
      try {
        const messages = this.#receiveNext(MSG_DONTWAIT);
        if (messages === undefined) break;
        result.push(...messages);
      } catch (error) {
        if (!(error instanceof NetlinkError) || !(error.errno === ENOBUFS || error.errno === EMSGSIZE)) throw error;
      }
    }
    return result;
  }

  [Symbol.dispose](): void {
    if (this.#isOpen) closeFile(this.#fd);
    this.#isOpen = false;
  }

  #collect(sequence: number, isEnd: (message: Message) => boolean): Message[] {
    const result: Message[] = [];
    for (;;) {
      for (const message of this.#await()) {
        // An answer to a request that was given up.
        if (message.sequence !== sequence) continue;
        if (!isEnd(message)) {
          result.push(message);
          continue;
        }
        this.#isSettled = true;
        assertDone(message);
        return result;
      }
    }
  }

  #send(data: Uint8Array): void {
    while (libc().send(this.#fd, data, data.length, 0) < 0) {
      const errno = lastErrno();
      if (errno !== EINTR) throw new NetlinkError(errno);
    }
  }

  /** Returns the messages of the kernel's next datagram. @throws NetlinkError when none comes within the limit */
  #await(): Message[] {
    const messages = this.#receive(0);
    if (messages === undefined) throw new NetlinkError(EAGAIN, `no answer within ${ANSWER_LIMIT_SECONDS} s`);
    return messages;
  }

  /** Returns the messages of the kernel's next datagram; `undefined` when it does not come in time. */
  #receive(flags: number): Message[] | undefined {
    const end = performance.now() + ANSWER_LIMIT_SECONDS * 1000;
    while (performance.now() < end) {
      const messages = this.#receiveNext(flags);
      if (messages === undefined || messages.length > 0) return messages;
    }
    return undefined;
  }

  /** Copies the messages of the next datagram out of the buffer: none when it is not the kernel's; `undefined` without a datagram. */
  #receiveNext(flags: number): Message[] | undefined {
    this.#senderLength[0] = SOCKADDR_BYTES;
    const buffer = this.#buffer;
    const length = libc().recvfrom(this.#fd, buffer, buffer.length, MSG_TRUNC | flags, this.#sender, this.#senderLength);
    if (length < 0) {
      const errno = lastErrno();
      if (errno === EAGAIN) return undefined;
      if (errno !== EINTR) throw new NetlinkError(errno);
      return [];
    }
    // Messages of other senders are dropped, whatever their length.
    if (this.#sender[SENDER_PORT] !== 0) return [];
    if (length > buffer.length) {
      this.#buffer = new Uint8Array(length);
      throw new NetlinkError(EMSGSIZE, `an answer of ${length} bytes was cut off`);
    }
    return parseMessages(buffer.slice(0, length));
  }
}

/** @throws NetlinkError when an acknowledgement is a refusal */
function assertDone(acknowledgement: Message): void {
  const { errno, detail } = parseAcknowledgement(acknowledgement);
  if (errno !== 0) throw new NetlinkError(errno, detail);
}
