/** The time since the machine has booted: the same in all its processes, and never set, unlike the time of day. */
import { libc } from "./libc.ts";

/** include/uapi/linux/time.h; it counts on while the machine sleeps. */
const CLOCK_BOOTTIME = 7;

/** Milliseconds. */
export function bootTimeMs(): number {
  const time = new BigInt64Array(2);
  libc().clock_gettime(CLOCK_BOOTTIME, time);
  const [seconds = 0n, nanoseconds = 0n] = time;
  return Number(seconds * 1000n + nanoseconds / 1_000_000n);
}
