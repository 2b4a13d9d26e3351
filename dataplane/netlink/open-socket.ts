/** Opens a socket to the kernel (netlink(7)). */
import { closeFile } from "../../lib/system/files.ts";
import { lastErrno, libc } from "../../lib/system/libc.ts";
import { NetlinkError } from "./message.ts";

/** include/linux/socket.h, include/uapi/linux/netlink.h, include/uapi/asm-generic/socket.h */
const AF_NETLINK = 16;
const SOCK_RAW_CLOEXEC = 3 | 0o2000000;
export const SOL_NETLINK = 270;
const NETLINK_CAP_ACK = 10;
const NETLINK_EXT_ACK = 11;
const NETLINK_GET_STRICT_CHK = 12;
const SOL_SOCKET = 1;
const SO_SNDBUF = 7;
const SO_RCVTIMEO = 20;
const SO_SNDBUFFORCE = 32;
const SO_RCVBUFFORCE = 33;
/** Is below what every socket may send at once, unless somebody has lowered net.core.wmem_default. */
const ALWAYS_ROOM = 128 * 1024;
export const SOCKADDR_BYTES = 12;

/**
 * @param groups bit mask of the groups whose news the socket gets (RTMGRP_*)
 * @returns its descriptor
 * @throws NetlinkError
 */
export function openKernelSocket(protocol: number, groups: number, answerLimitSeconds: number): number {
  const fd = libc().socket(AF_NETLINK, SOCK_RAW_CLOEXEC, protocol);
  if (fd < 0) throw new NetlinkError(lastErrno());
  // A kernel without one of these answers all the same, only with fewer words.
  for (const option of [NETLINK_CAP_ACK, NETLINK_EXT_ACK, NETLINK_GET_STRICT_CHK]) {
    libc().setsockopt(fd, SOL_NETLINK, option, Int32Array.of(1), 4);
  }
  libc().setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, BigInt64Array.of(BigInt(answerLimitSeconds), 0n), 16);
  // A connected socket refuses what other programs send to it (net/netlink/af_netlink.c, netlink_getsockbyportid). Without that, a
  // process with CAP_NET_ADMIN in the namespace could fill its buffer, and the kernel's answers would be lost (ENOBUFS).
  const isBound = groups === 0 || libc().bind(fd, socketAddress(groups), SOCKADDR_BYTES) === 0;
  if (!isBound || libc().connect(fd, socketAddress(0), SOCKADDR_BYTES) !== 0) {
    const errno = lastErrno();
    closeFile(fd);
    throw new NetlinkError(errno);
  }
  return fd;
}

/** Writes struct sockaddr_nl; the kernel chooses the port. */
function socketAddress(groups: number): Uint8Array {
  const view = new DataView(new ArrayBuffer(SOCKADDR_BYTES));
  view.setUint16(0, AF_NETLINK, true);
  view.setUint32(8, groups, true);
  return new Uint8Array(view.buffer);
}

/**
 * Lets the socket send a datagram of this length (net/netlink/af_netlink.c, netlink_sendmsg: EMSGSIZE). The kernel doubles the number. Without
 * CAP_NET_ADMIN in the first user namespace, net.core.wmem_max is the limit.
 */
export function makeRoomToSend(fd: number, length: number): void {
  if (length <= ALWAYS_ROOM) return;
  const wanted = Int32Array.of(length);
  if (libc().setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, wanted, 4) !== 0) libc().setsockopt(fd, SOL_SOCKET, SO_SNDBUF, wanted, 4);
}

/** Makes room for what the kernel sends by itself while nobody reads. @throws NetlinkError */
export function setReceiveBuffer(fd: number, bytes: number): void {
  setSocketOption(fd, SOL_SOCKET, SO_RCVBUFFORCE, bytes);
}

/** @throws NetlinkError */
export function setSocketOption(fd: number, level: number, option: number, value: number): void {
  if (libc().setsockopt(fd, level, option, Int32Array.of(value), 4) !== 0) throw new NetlinkError(lastErrno());
}
