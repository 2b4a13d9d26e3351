/**
 * write(2) on a thread of the C library (aio(7)): for system calls that may block without end where only the kernel can wake them, such as
 * the deletion of a network device. Whoever started one goes on, and looks later, or never.
 */
import { ptr } from "bun:ffi";
import { errnoName, errnoText } from "./errno.ts";
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

/** The kernel's and the C library's view of a write: neither buffer may move or be freed before it is over. */
interface Pending {
  readonly control: Uint8Array;
  readonly data: Uint8Array;
}

const pending = new Set<Pending>();

/**
 * Starts writing all of `data` to a socket or pipe, and returns at once. The descriptor must stay open until the write has begun.
 * The process cannot end before the kernel lets the thread go, as with any thread.
 * @throws Error when no such thread can be started; nothing was written then
 */
export function startWrite(fd: number, data: Uint8Array): { isDone(): boolean } {
  for (const write of pending) {
    if (isDone(write)) pending.delete(write);
  }
  const write: Pending = { control: new Uint8Array(AIOCB_BYTES), data };
  const view = new DataView(write.control.buffer);
  view.setInt32(AIO_FILDES, fd, true);
  view.setBigUint64(AIO_BUF, BigInt(ptr(data)), true);
  view.setBigUint64(AIO_NBYTES, BigInt(data.length), true);
  view.setInt32(SIGEV_NOTIFY, SIGEV_NONE, true);
  pending.add(write);
  if (libc().aio_write(write.control) !== 0) {
    const errno = lastErrno();
    pending.delete(write);
    throw new Error(`cannot start a write: ${errnoText(errno)} (${errnoName(errno)})`);
  }
  return { isDone: () => isDone(write) };
}

function isDone(write: Pending): boolean {
  return libc().aio_error(write.control) !== EINPROGRESS;
}
