/** The end of a plugin's process. */
import { libc } from "./libc.ts";

/**
 * Ends the process at once (_exit(2)). The runtime's own end costs half a millisecond, and closes an open SQLite file on the way, whose
 * last user would copy its log back and wait for the disk (docs/decisions.md). Everything must have been written before.
 */
export function exitNow(status: number): never {
  libc()._exit(status);
  throw new Error("_exit(2) returned");
}
