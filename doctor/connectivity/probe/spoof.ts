/** Sends a datagram with a source that is not the sender's own, as a pod with CAP_NET_RAW can. */
import { bytesOf, parseAddress } from "../../../lib/addresses/address.ts";
import { errnoName } from "../../../lib/system/errno.ts";
import { closeFile } from "../../../lib/system/files.ts";
import { lastErrno, libc } from "../../../lib/system/libc.ts";

/** include/linux/socket.h, include/uapi/linux/in.h, include/uapi/linux/in6.h */
const SOCKETS = {
  4: { family: 2, level: 0, transparent: 19 },
  6: { family: 10, level: 41, transparent: 75 },
} as const;
const SOCK_DGRAM_CLOEXEC = 2 | 0o2000000;
const ONE = Int32Array.of(1);

/** @returns why it could not be sent, in the kernel's word; `undefined` when it was */
export function sendFrom(source: string, to: string, port: number, payload: Uint8Array): string | undefined {
  const [from, target] = [parseAddress(source), parseAddress(to)];
  if (from === undefined || target === undefined || from.family !== target.family) return "EINVAL";
  const { family, level, transparent } = SOCKETS[from.family];
  const socket = libc().socket(family, SOCK_DGRAM_CLOEXEC, 0);
  if (socket < 0) return errnoName(lastErrno());
  try {
    // Allows a foreign source (ip(7), IP_TRANSPARENT).
    const steps = [
      () => libc().setsockopt(socket, level, transparent, ONE, ONE.byteLength),
      () => call(libc().bind, socket, socketAddress(family, bytesOf(from), 0)),
      () => call(libc().connect, socket, socketAddress(family, bytesOf(target), port)),
      () => libc().send(socket, payload, payload.length, 0),
    ];
    for (const step of steps) if (step() < 0) return errnoName(lastErrno());
    return undefined;
  } finally {
    closeFile(socket);
  }
}

type WithAddress = (socket: number, address: Uint8Array, length: number) => number;

function call(operation: WithAddress, socket: number, address: Uint8Array): number {
  return operation(socket, address, address.length);
}

/** Writes struct sockaddr_in or sockaddr_in6. */
function socketAddress(family: number, address: Uint8Array, port: number): Uint8Array {
  const isSixth = address.length === 16;
  const result = new Uint8Array(isSixth ? 28 : 16);
  const view = new DataView(result.buffer);
  view.setUint16(0, family, true);
  view.setUint16(2, port, false);
  result.set(address, isSixth ? 8 : 4);
  return result;
}
