/**
 * A Unix socket of the agent (A§2.1): bound under a private name, given its mode and group, then renamed into place, so that it is never
 * there with wider rights.
 */
import { chmodSync, chownSync, renameSync, rmSync, unlinkSync } from "node:fs";
import type { Server, Socket } from "node:net";

const PRIVATE_UMASK = 0o177;

export interface SocketRights {
  readonly mode: number;
  /** `undefined`: root's. */
  readonly group?: number | undefined;
}

/** @throws Error when it cannot be bound; nothing is left at `path` that was not there */
export async function bindSocket(acceptor: Server, path: string, { mode, group }: SocketRights): Promise<void> {
  const draft = `${path}.${process.pid}`;
  rmSync(draft, { force: true });
  const before = process.umask(PRIVATE_UMASK);
  try {
    await new Promise<void>((done, failed) => {
      acceptor.once("error", failed);
      acceptor.listen(draft, done);
    });
  } finally {
    process.umask(before);
  }
  try {
    chmodSync(draft, mode);
    if (group !== undefined) chownSync(draft, 0, group);
    renameSync(draft, path);
  } catch (error) {
    acceptor.close();
    try {
      unlinkSync(draft);
    } catch {
      // The server has removed it.
    }
    throw error;
  }
}

/** Bun keeps the descriptor in `_handle`, as Node does; neither has a public name for it. @throws Error where it is not there */
export function descriptorOf(socket: Socket): number {
  const handle: unknown = "_handle" in socket ? socket._handle : undefined;
  const fd = typeof handle === "object" && handle !== null && "fd" in handle ? handle.fd : undefined;
  if (typeof fd !== "number" || fd < 0) throw new Error("a connection without a descriptor");
  return fd;
}
