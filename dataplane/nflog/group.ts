/** Listens to a group of the kernel's packet log (NFLOG). */
import { type DatagramListener, listenToKernel } from "../netlink/listen.ts";
import { NetlinkError } from "../netlink/message.ts";
import { NETLINK_NETFILTER, NetlinkSocket } from "../netlink/socket.ts";
import { bindRequest, type LoggedPacket, parseLog, settingsRequest } from "./message.ts";

/** include/uapi/asm-generic/errno-base.h */
const EPERM = 1;
const EBUSY = 16;

/** Has room for some thousand packets while the event loop is busy: the kernel counts some 1.5 KiB for each that comes alone. */
const RECEIVE_BYTES = 4 * 1024 * 1024;
const SETTINGS = {
  /** Has room for an IPv6 header, one extension, and the ports; more of a stranger's packet is not wanted. */
  copyBytes: 128,
  bufferBytes: 8192,
  packets: 20,
  /** 50 ms: a drop is shown at once for a person. */
  hundredths: 5,
} as const;

/** Says that another program, or another agent, has the group. */
export class GroupTakenError extends Error {
  override readonly name = "GroupTakenError";

  constructor(group: number, cause: unknown) {
    super(`group ${group} of the kernel's packet log (NFLOG) has another listener`, { cause });
  }
}

export interface LogListener {
  onPackets(packets: readonly LoggedPacket[]): void;
  /** Called with how many packets the kernel has logged and could not hand over, and the bytes of which could not be read. */
  onLost(count: number): void;
  /** Called once when the socket ends although nobody closed it. */
  onEnd(error: Error | undefined): void;
}

/**
 * Binds a group in the process's own network namespace, and holds it until it is disposed.
 * @throws GroupTakenError; NetlinkError for every other refusal
 */
export function listenToGroup(group: number, listener: LogListener): Promise<Disposable> {
  // Losses show as gaps in the numbers of the packets; ENOBUFS would say less.
  const socket = { protocol: NETLINK_NETFILTER, groups: 0, receiveBytes: RECEIVE_BYTES, endsWhenFull: false };
  return listenToKernel(socket, (fd) => {
    bind(fd, group);
    return receiver(listener);
  });
}

/** @throws GroupTakenError, NetlinkError */
function bind(fd: number, group: number): void {
  const socket = new NetlinkSocket(fd);
  try {
    socket.request(bindRequest(group));
    socket.request(settingsRequest(group, SETTINGS));
  } catch (error) {
    const isTaken = error instanceof NetlinkError && (error.errno === EBUSY || error.errno === EPERM);
    throw isTaken ? new GroupTakenError(group, error) : error;
  }
}

function receiver(listener: LogListener): DatagramListener {
  const numbers = new SequenceGaps();
  return {
    onData(data) {
      const packets = parseLog(data);
      const lost = packets === undefined ? 1 : numbers.lostBefore(packets);
      if (lost > 0) listener.onLost(lost);
      if (packets !== undefined && packets.length > 0) listener.onPackets(packets);
    },
    onEnd: (error) => listener.onEnd(error),
  };
}

const NUMBERS = 2 ** 32;

/** Counts the packets that are missing between those that came. */
export class SequenceGaps {
  #next: number | undefined;

  lostBefore(packets: readonly Pick<LoggedPacket, "sequence">[]): number {
    let lost = 0;
    for (const { sequence } of packets) {
      if (sequence === undefined) continue;
      if (this.#next !== undefined) lost += (sequence - this.#next + NUMBERS) % NUMBERS;
      this.#next = (sequence + 1) % NUMBERS;
    }
    return lost;
  }
}
