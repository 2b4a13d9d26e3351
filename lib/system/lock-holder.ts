/** Who holds the flock(2) of a file, for messages: /proc/locks names the process by the file's inode (proc_locks(5)). */
import { readFileSync, statSync } from "node:fs";

/** "pid 4711 (calico-ipam)"; "another process" when that cannot be told, as for a holder in a namespace that is not seen from here. */
export function lockHolder(path: string): string {
  try {
    const pid = pidOf(path);
    return pid === undefined ? "another process" : `pid ${pid} (${commandOf(pid)})`;
  } catch {
    return "another process";
  }
}

/** `1: FLOCK  ADVISORY  WRITE 3287 fe:00:803067 0 EOF`; a line of somebody who waits has "->" after its number. */
function pidOf(path: string): number | undefined {
  const { dev, ino } = statSync(path);
  const locks = readFileSync("/proc/locks", "utf8")
    .split("\n")
    .map((line) => line.trim().split(/\s+/))
    .filter(([, kind, , , , file]) => kind === "FLOCK" && file?.endsWith(`:${ino}`));
  // Some file systems (btrfs) show another device to stat(2), so the inode alone has to do when no line has the device.
  const device = deviceText(dev);
  const [, , , , text] = locks.find(([, , , , , file]) => file === `${device}:${ino}`) ?? locks[0] ?? [];
  const pid = Number(text);
  return pid > 0 ? pid : undefined;
}

/** Major and minor number in hexadecimal digits, two or more each (fs/locks.c; the numbers are packed as in <sys/sysmacros.h>). */
function deviceText(dev: number): string {
  const packed = BigInt(dev);
  const major = ((packed >> 8n) & 0xfffn) | ((packed >> 32n) & 0xfffff000n);
  const minor = (packed & 0xffn) | ((packed >> 12n) & 0xffffff00n);
  return [major, minor].map((number) => number.toString(16).padStart(2, "0")).join(":");
}

/** Its name only: a command line may hold secrets. */
function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/comm`, "utf8").trim();
  } catch {
    return "ended";
  }
}
