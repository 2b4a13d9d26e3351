/** Directories of endpoints as a killed agent left them (A§7.3 step 2): whatever point it was killed at, one of them is complete. */
import type { EndpointDirectories, FoundDirectory } from "../endpoints/record/directories.ts";

/** Files of a failed build are kept for a person this long. */
const FAILED_KEPT_MS = 24 * 60 * 60 * 1000;

export function mendDirectories(directories: EndpointDirectories, now: number): void {
  const found = directories.list();
  const has = ({ id }: FoundDirectory, variant: FoundDirectory["variant"]) =>
    found.some((other) => other.id === id && other.variant === variant);
  for (const directory of found) {
    const { id, variant } = directory;
    switch (variant) {
      case "_stale":
        // Killed between the two renames of a swap: the old files come back, and with them the record.
        if (has(directory, "")) directories.remove(id, "_stale");
        else directories.rename(id, "_stale", "");
        break;
      case "_next":
        directories.remove(id, "_next");
        break;
      case "_next_fail":
        if ((directories.ageOf(id, variant, now) ?? 0) > FAILED_KEPT_MS) directories.remove(id, variant);
        break;
      case "":
        break;
    }
  }
}
