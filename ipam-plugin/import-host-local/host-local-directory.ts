/**
 * Opens host-local's store of one network (containernetworking/plugins, plugins/ipam/host-local/backend/disk): a directory with a file for
 * each address, named after it, that holds container id and interface name in lines; `last_reserved_ip.N` for each range, and `lock`,
 * which host-local takes with flock(2).
 */
import { existsSync, readdirSync, readFileSync, rmdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { lockFile } from "../../lib/system/flock.ts";

const LOCK = "lock";

export type HostLocalDirectory = ReturnType<typeof openHostLocalDirectory>;

export function openHostLocalDirectory(path: string) {
  /** Succeeds without such a file. */
  const remove = (name: string) => rmSync(join(path, name), { force: true });
  return {
    path,
    exists: () => existsSync(path),
    /** Lists the names of everything in it, in order. */
    names: () => readdirSync(path).sort(),
    read: (name: string) => readFileSync(join(path, name), "utf8"),
    remove,
    /** Takes host-local's own lock; waits as long as it takes. */
    lock: () => lockFile(join(path, LOCK)),
    /** Removes the directory itself, and the lock in it. @throws when anything else is there */
    removeItself() {
      remove(LOCK);
      rmdirSync(path);
    },
  };
}

/** Tells whether a file of the directory stands for something else than an address. */
export function isBookkeeping(name: string): boolean {
  return name === LOCK || isCursor(name);
}

/** Tells whether a file says where host-local continues in a range; no other program uses it. */
export function isCursor(name: string): boolean {
  return name.includes("last");
}
