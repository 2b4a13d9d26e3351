/**
 * Guards root's power. A plugin gives up what it has no use for once it knows its task, and memory dumps, which would hold its credentials;
 * a process that connects containers learns what it lacks; files and variables that others could turn against us are found.
 *
 * The kernel keeps capabilities per thread, and threads begin with what their parent has: give up before anything asynchronous is started, when
 * there are no threads but the engine's own, which make no system calls for the program.
 */

import { TortieError } from "../errors/errors.ts";
import { errnoName, errnoText } from "./errno.ts";
import { statusIfSeen } from "./files.ts";
import { lastErrno, libc } from "./libc.ts";
import { refusedVariables } from "./refused-variables.ts";

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

/** Allows no core file, and no debugger without CAP_SYS_PTRACE (PR_SET_DUMPABLE(2const)); a program that is executed starts afresh. */
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
 * Lists the capabilities without which no container can be connected and that this thread does not have, by their names (capabilities(7)).
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

const GROUP_OR_OTHERS_WRITE = 0o022;
const OTHERS_READ = 0o004;

interface Trusted {
  readonly path: string;
  /** It holds credentials or addresses of others. */
  readonly isSecret: boolean;
}

/**
 * Tells whether a user other than root could have changed or read a file that a program with root's power trusts.
 * @returns what is wrong with the file, as a sentence; `undefined` when nothing is, or nothing is there
 */
export function exposureOf({ path, isSecret }: Trusted, ourselves = process.geteuid?.() ?? 0): string | undefined {
  // A file that cannot be examined is reported by the code that needs it.
  const status = statusIfSeen(path);
  if (status === undefined) return undefined;
  if (status.owner !== 0 && status.owner !== ourselves) return `${path} belongs to user ${status.owner}`;
  if ((status.mode & GROUP_OR_OTHERS_WRITE) !== 0) return `${path} may be written by others than its owner`;
  if (isSecret && (status.mode & OTHERS_READ) !== 0) return `${path} may be read by everybody`;
  return undefined;
}

/**
 * Refuses variables that change what the JavaScript runtime inside the executable does, before and behind the program's back: BUN_OPTIONS
 * would load any file first (--preload), BUN_INSPECT opens a debugger, BUN_JSC_* turns parts of the engine on and off, BUN_CONFIG_VERBOSE_FETCH
 * prints requests with their tokens. Bun has no option that turns them off; scripts/build takes BUN_OPTIONS and BUN_BE_BUN out of it.
 *
 * @throws TortieError `runtime-variable` when one of them is set
 */
export function refuseRuntimeVariables(env: Readonly<Record<string, string | undefined>>): void {
  const set = refusedVariables(env);
  if (set.length > 0) throw new TortieError("runtime-variable", `the environment changes the JavaScript runtime: ${set.join(", ")}`);
}
