/**
 * What a plugin gives up once it knows its task: everything of root's power that it has no use for, and memory dumps, which would hold its
 * credentials. And what of root's power a process lacks that connects containers.
 *
 * The kernel keeps these per thread, and threads begin with what their parent has: give up before anything asynchronous is started, when
 * there are no threads but the engine's own, which make no system calls for the program.
 */
import { errnoName, errnoText } from "./errno.ts";
import { lastErrno, libc } from "./libc.ts";

/** include/uapi/linux/prctl.h */
const PR_SET_DUMPABLE = 4;
const PR_SET_NO_NEW_PRIVS = 38;

/** include/uapi/linux/capability.h; `_LINUX_CAPABILITY_VERSION_3` has 64 bits in two records of effective, permitted and inheritable. */
const CAPABILITY_VERSION_3 = 0x20080522;
const CAP_DAC_OVERRIDE = 1;
const CAP_NET_ADMIN = 12;
const CAP_SYS_PTRACE = 19;
const CAP_SYS_ADMIN = 21;

/**
 * Links, routes and sysctls; entering a sandbox; sandboxes named /proc/PID/ns/net, which the kernel guards like a debugger's access; files
 * that belong to others. All below 32: the second record stays empty.
 */
const KEPT = (1 << CAP_NET_ADMIN) | (1 << CAP_SYS_ADMIN) | (1 << CAP_SYS_PTRACE) | (1 << CAP_DAC_OVERRIDE);

/** Links, routes and sysctls; entering a sandbox. The others are needed for some sandboxes and files only. */
const NEEDED = [
  { name: "CAP_NET_ADMIN", number: CAP_NET_ADMIN },
  { name: "CAP_SYS_ADMIN", number: CAP_SYS_ADMIN },
];

/** No core file, and no debugger without CAP_SYS_PTRACE (PR_SET_DUMPABLE(2const)); a program that is executed starts afresh. */
export function preventCoreDumps(): void {
  check("PR_SET_DUMPABLE", libc().prctl(PR_SET_DUMPABLE, 0n, 0n, 0n, 0n));
}

/**
 * Keeps only the capabilities above, for this thread, those it starts and every program they execute, for good (no_new_privs).
 * @throws Error when the kernel refuses; the process goes on with what it has
 */
export function dropPrivileges(): void {
  check("PR_SET_NO_NEW_PRIVS", libc().prctl(PR_SET_NO_NEW_PRIVS, 1n, 0n, 0n, 0n));
  const { header, permitted } = readCapabilities();
  check("capset", libc().capset(header, Uint32Array.of(permitted & KEPT, permitted & KEPT, 0, 0, 0, 0)));
}

/**
 * The capabilities without which no container can be connected and that this thread does not have, by their names (capabilities(7)).
 * @throws Error when the kernel does not say
 */
export function missingCapabilities(): readonly string[] {
  const { effective } = readCapabilities();
  return NEEDED.filter(({ number }) => (effective & (1 << number)) === 0).map(({ name }) => name);
}

function readCapabilities() {
  const header = Uint32Array.of(CAPABILITY_VERSION_3, 0);
  const data = new Uint32Array(6);
  check("capget", libc().capget(header, data));
  const [effective = 0, permitted = 0] = data;
  return { header, effective, permitted };
}

function check(call: string, result: number): void {
  if (result === 0) return;
  const errno = lastErrno();
  throw new Error(`${call}: ${errnoText(errno)} (${errnoName(errno)})`);
}
