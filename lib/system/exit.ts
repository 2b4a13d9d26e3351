/** The end of a plugin's process. */
import { libc } from "./libc.ts";

/**
 * Ends the process at once (_exit(2)). The runtime's own end closes an open SQLite file on the way, whose last user would copy its log back
 * and wait for the disk (docs/project/decisions.md). Everything must have been written before.
 */
export function exitNow(status: number): never {
  try {
    libc()._exit(status);
  } catch {
    // Without the C library nothing was opened that would take time to close; why it cannot be called, the operation's error says.
  }
  process.exit(status);
}
