/**
 * Listens to what the kernel sends by itself. Bun waits for the socket in its own loop, so nothing blocks and nothing polls.
 *
 * The socket is connected to the kernel, and a connected netlink socket refuses what other programs send to it; so Bun's plain recv(2), which
 * does not say who sent, is enough.
 */
interface DatagramListener {
  onData(data: Uint8Array): void;
  /** Called once when the socket ends although nobody closed it: the kernel had more to say than there was room for (ENOBUFS). */
  onEnd(error: Error | undefined): void;
}

/** Hands the descriptor over to Bun, which closes it. */
export async function listenOn(fd: number, listener: DatagramListener): Promise<Disposable> {
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
