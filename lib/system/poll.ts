/** poll(2): wait for any of several descriptors, with a limit. */
import { errnoName, errnoText } from "./errno.ts";
import { lastErrno, libc } from "./libc.ts";

const POLLFD_BYTES = 8;
const POLLIN = 1;
const EINTR = 4;

/**
 * Blocks the thread until something can be read from one of the descriptors (or its other side is gone), or the limit is over.
 * @returns the descriptors that are ready; none when the limit was over
 */
export function pollReadable(fds: readonly number[], limitMs: number): readonly number[] {
  const set = new DataView(new ArrayBuffer(fds.length * POLLFD_BYTES));
  for (const [index, fd] of fds.entries()) {
    set.setInt32(index * POLLFD_BYTES, fd, true);
    set.setInt16(index * POLLFD_BYTES + 4, POLLIN, true);
  }
  const end = performance.now() + limitMs;
  for (;;) {
    const ready = libc().poll(new Uint8Array(set.buffer), fds.length, Math.max(0, Math.ceil(end - performance.now())));
    if (ready >= 0) return fds.filter((_, index) => set.getInt16(index * POLLFD_BYTES + 6, true) !== 0);
    const errno = lastErrno();
    if (errno !== EINTR) throw new Error(`poll: ${errnoText(errno)} (${errnoName(errno)})`);
  }
}
