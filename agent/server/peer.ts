/** Who is at the other end of a Unix socket: as the kernel saw it when the connection was made (SO_PEERCRED, SO_PEERGROUPS; unix(7)). */
import { errnoName, errnoText } from "../../lib/system/errno.ts";
import { lastErrno, libc } from "../../lib/system/libc.ts";

/** include/uapi/asm-generic/socket.h */
const SOL_SOCKET = 1;
const SO_PEERCRED = 17;
const SO_PEERGROUPS = 59;

export interface Peer {
  readonly pid: number;
  readonly uid: number;
  readonly gid: number;
  /** Supplementary groups; root is not asked for them, which give it nothing. */
  readonly groups: readonly number[];
}

/** Groups that are asked for at first; more only with a second call. */
const USUAL_GROUPS = 64;
const ERANGE = 34;

/** @param fd of the connected socket @throws Error when it has no peer */
export function peerOf(fd: number): Peer {
  const [pid = 0, uid = -1, gid = -1] = option(fd, SO_PEERCRED, 3).values;
  return { pid, uid: uid >>> 0, gid: gid >>> 0, groups: uid === 0 ? [] : groupsOf(fd) };
}

function groupsOf(fd: number): readonly number[] {
  const first = option(fd, SO_PEERGROUPS, USUAL_GROUPS);
  const { values } = first.needed > USUAL_GROUPS ? option(fd, SO_PEERGROUPS, first.needed) : first;
  return values.map((group) => group >>> 0);
}

/** An option of 32-bit numbers. */
function option(fd: number, name: number, count: number): { readonly values: readonly number[]; readonly needed: number } {
  const values = new Int32Array(count);
  const length = Uint32Array.of(values.byteLength);
  const result = libc().getsockopt(fd, SOL_SOCKET, name, values, length);
  const errno = result === 0 ? 0 : lastErrno();
  const needed = (length[0] ?? 0) / Int32Array.BYTES_PER_ELEMENT;
  if (result !== 0 && !(errno === ERANGE && needed > count)) {
    throw new Error(`getsockopt ${name}: ${errnoText(errno)} (${errnoName(errno)})`);
  }
  return { values: [...values.subarray(0, Math.min(needed, count))], needed };
}
