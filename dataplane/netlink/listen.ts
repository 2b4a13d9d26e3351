/**
 * Listens to what the kernel sends by itself. Bun waits for the socket in its own loop, so nothing blocks and nothing polls.
 *
 * The socket is connected to the kernel, and a connected netlink socket refuses what other programs send to it; so Bun's plain recv(2), which
 * does not say who sent, is enough.
 */
import { closeFile } from "../../lib/system/files.ts";
import { isInOtherNamespace } from "../../lib/system/netns.ts";
import { openKernelSocket, SOL_NETLINK, setReceiveBuffer, setSocketOption } from "./open-socket.ts";

/** include/uapi/linux/netlink.h */
const NETLINK_NO_ENOBUFS = 5;
const ANSWER_LIMIT_SECONDS = 10;

export interface ListeningSocket {
  readonly protocol: number;
  /** Bit mask of the groups that are joined at once (RTMGRP_*). */
  readonly groups: number;
  /** Room for a burst while the event loop is busy. Default: net.core.rmem_default. */
  readonly receiveBytes?: number;
  /** Whether the listener ends when there was no room (ENOBUFS); else what did not fit is lost silently. */
  readonly endsWhenFull: boolean;
}

export interface DatagramListener {
  onData(data: Uint8Array): void;
  /** Called once when the socket ends although nobody closed it. */
  onEnd(error: Error | undefined): void;
}

/**
 * Listens in the process's own network namespace until it is disposed.
 * @param setUp called with the open socket, before anything is read from it
 * @throws NetlinkError, and what `setUp` throws
 */
export async function listenToKernel(socket: ListeningSocket, setUp: (fd: number) => DatagramListener): Promise<Disposable> {
  if (isInOtherNamespace()) throw new Error("a socket of the host cannot be opened while this thread is in a sandbox");
  const fd = openKernelSocket(socket.protocol, socket.groups, ANSWER_LIMIT_SECONDS);
  let listener: DatagramListener;
  try {
    // Else Bun's socket ends with the error.
    if (!socket.endsWhenFull) setSocketOption(fd, SOL_NETLINK, NETLINK_NO_ENOBUFS, 1);
    if (socket.receiveBytes !== undefined) setReceiveBuffer(fd, socket.receiveBytes);
    listener = setUp(fd);
  } catch (error) {
    closeFile(fd);
    throw error;
  }
  return listenOn(fd, listener);
}

/** Hands the descriptor over to Bun, which closes it. */
async function listenOn(fd: number, listener: DatagramListener): Promise<Disposable> {
  let isOpen = true;
  let problem: Error | undefined;
  const socket = await Bun.connect({
    fd,
    socket: {
      data(_socket, data) {
        listener.onData(data);
      },
      error(_socket, error) {
        problem = error;
      },
      close() {
        if (isOpen) listener.onEnd(problem);
        isOpen = false;
      },
    },
  });
  return {
    [Symbol.dispose]() {
      isOpen = false;
      socket.terminate();
    },
  };
}
