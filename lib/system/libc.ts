/**
 * The C library through FFI: what Linux has and node does not, namespaces, locks and netlink sockets. Loaded at the first call (0.3 ms),
 * never by merely importing this file.
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
 * The functions of the C library named above, with their C signatures; pointers are typed arrays.
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

/** errno of the call of `libc()` that has just failed. */
export function lastErrno(): number {
  return errnoLocation === null ? 0 : read.i32(errnoLocation);
}
