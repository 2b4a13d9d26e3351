/**
 * Calls the C library through FFI: what Linux has and node does not, namespaces, locks and netlink sockets. Loaded at the first call (0.3
 * ms), never by merely importing this file.
 *
 * A function that fails returns -1; `lastErrno()` must then be the very next call, before the runtime makes system calls of its own.
 */
import { dlopen, type FFIFunction, type Library, type Pointer, read } from "bun:ffi";
import { messageOf, TortieError } from "../errors/errors.ts";

const SYMBOLS = {
  socket: { args: ["i32", "i32", "i32"], returns: "i32" },
  getsockopt: { args: ["i32", "i32", "i32", "ptr", "ptr"], returns: "i32" },
  setsockopt: { args: ["i32", "i32", "i32", "ptr", "u32"], returns: "i32" },
  bind: { args: ["i32", "ptr", "u32"], returns: "i32" },
  connect: { args: ["i32", "ptr", "u32"], returns: "i32" },
  // ssize_t cut to 32 bits: no buffer of ours comes near 2 GiB, and -1 stays -1.
  send: { args: ["i32", "ptr", "usize", "i32"], returns: "i32" },
  recvfrom: { args: ["i32", "ptr", "usize", "i32", "ptr", "ptr"], returns: "i32" },
  setns: { args: ["i32", "i32"], returns: "i32" },
  flock: { args: ["i32", "i32"], returns: "i32" },
  // Variadic in C; with one number it is called like this on Linux.
  fcntl: { args: ["i32", "i32", "i32"], returns: "i32" },
  aio_write: { args: ["ptr"], returns: "i32" },
  aio_error: { args: ["ptr"], returns: "i32" },
  prctl: { args: ["i32", "u64", "u64", "u64", "u64"], returns: "i32" },
  capget: { args: ["ptr", "ptr"], returns: "i32" },
  capset: { args: ["ptr", "ptr"], returns: "i32" },
  // Variadic in C as well.
  syscall: { args: ["u64", "i32", "ptr", "i32", "ptr", "u32"], returns: "i32" },
  clock_gettime: { args: ["i32", "ptr"], returns: "i32" },
  abort: { args: [], returns: "void" },
  _exit: { args: ["i32"], returns: "void" },
  __errno_location: { args: [], returns: "ptr" },
} as const satisfies Record<string, FFIFunction>;

let library: Library<typeof SYMBOLS> | undefined;
/** Where this thread's errno is. Known beforehand, since whatever happens between a failure and the look at it may overwrite it. */
let errnoLocation: Pointer | bigint | null = null;

/**
 * Gives the functions of the C library named above, with their C signatures; pointers are typed arrays.
 * @throws TortieError `platform-unsupported` where the process may have no memory that is written and executed (PR_SET_MDWE), or no glibc
 */
export function libc(): Library<typeof SYMBOLS>["symbols"] {
  if (library === undefined) {
    library = load();
    errnoLocation = library.symbols.__errno_location();
    // What its first call loads must not come between a failure and the look at it either.
    lastErrno();
  }
  return library.symbols;
}

function load(): Library<typeof SYMBOLS> {
  try {
    return dlopen("libc.so.6", SYMBOLS);
  } catch (error) {
    throw new TortieError("platform-unsupported", `cannot call the C library: ${messageOf(error)}`, { cause: error });
  }
}

/** Gives errno of the call of `libc()` that has just failed. */
export function lastErrno(): number {
  return errnoLocation === null ? 0 : read.i32(errnoLocation);
}

/** include/uapi/linux/time.h; it counts on while the machine sleeps. */
const CLOCK_BOOTTIME = 7;

/** Milliseconds since the machine has booted: the same in all its processes, and never set, unlike the time of day. */
export function bootTimeMs(): number {
  const time = new BigInt64Array(2);
  libc().clock_gettime(CLOCK_BOOTTIME, time);
  const [seconds = 0n, nanoseconds = 0n] = time;
  return Number(seconds * 1000n + nanoseconds / 1_000_000n);
}

/**
 * Ends the process at once (_exit(2)). The runtime's own end closes an open SQLite file on the way, whose last user would copy its log back
 * and wait for the disk (docs/project/decisions.md). Everything must have been written before.
 */
export function exitNow(status: number): never {
  try {
    libc()._exit(status);
  } catch {
    // Without the C library nothing was opened that would take time to close; why it cannot be called, the operation's error says.
  }
  process.exit(status);
}
