/**
 * Runs write(2) on a thread of the C library (aio(7)), for system calls that may block without end, such as the deletion of a
 * network device. The caller goes on at once and may poll for the outcome.
 */
import { ptr } from "bun:ffi";
import { errnoName, errnoText } from "./errno.ts";
import { closeFile } from "./files.ts";
import { lastErrno, libc } from "./libc.ts";

/** struct aiocb of glibc on 64 bit machines (/usr/include/aio.h): what is not set here stays zero. */
const AIOCB_BYTES = 168;
const AIO_FILDES = 0;
const AIO_BUF = 16;
const AIO_NBYTES = 24;
const SIGEV_NOTIFY = 44;
/** include/uapi/asm-generic/siginfo.h: completion is asked for, not signalled. */
const SIGEV_NONE = 1;
const EINPROGRESS = 115;
/** include/uapi/linux/fcntl.h */
const F_DUPFD_CLOEXEC = 1030;
/** How often finished writes that no caller polls are freed. */
const SWEEP_MS = 100;

/** The kernel's and the C library's view of a write: neither buffer may move or be freed before it is over. */
interface Pending {
  readonly control: Uint8Array;
  readonly data: Uint8Array;
  readonly fd: number;
}

const pending = new Set<Pending>();
let sweeping: ReturnType<typeof setTimeout> | undefined;

/**
 * Starts writing all of `data` to a socket or pipe, and returns at once. The write has a descriptor of its own, which is closed when the
 * write is over and never before: the caller may close his at any time, and whatever gets its number meanwhile is not written to. The
 * process cannot end before the kernel lets the thread go, as with any thread.
 * @throws Error when no such thread can be started; nothing was written then
 */
export function startWrite(fd: number, data: Uint8Array): { isDone(): boolean } {
  const own = libc().fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) throw failure(lastErrno());
  const write: Pending = { control: new Uint8Array(AIOCB_BYTES), data, fd: own };
  const view = new DataView(write.control.buffer);
  view.setInt32(AIO_FILDES, own, true);
  view.setBigUint64(AIO_BUF, BigInt(ptr(data)), true);
  view.setBigUint64(AIO_NBYTES, BigInt(data.length), true);
  view.setInt32(SIGEV_NOTIFY, SIGEV_NONE, true);
  pending.add(write);
  if (libc().aio_write(write.control) !== 0) {
    const errno = lastErrno();
    pending.delete(write);
    closeFile(own);
    throw failure(errno);
  }
  sweepLater();
  return { isDone: () => isDone(write) };
}

/** Tells whether the write is over; its descriptor is closed then. */
function isDone(write: Pending): boolean {
  if (!pending.has(write)) return true;
  if (libc().aio_error(write.control) === EINPROGRESS) return false;
  pending.delete(write);
  closeFile(write.fd);
  return true;
}

/** Closes the descriptors of finished writes until all are closed; keeps no process alive. */
function sweepLater(): void {
  sweeping ??= setTimeout(() => {
    sweeping = undefined;
    for (const write of pending) isDone(write);
    if (pending.size > 0) sweepLater();
  }, SWEEP_MS);
  sweeping.unref();
}

function failure(errno: number): Error {
  return new Error(`cannot start a write: ${errnoText(errno)} (${errnoName(errno)})`);
}
