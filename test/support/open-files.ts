import { readdirSync, readlinkSync } from "node:fs";

/** Paths of the files below a folder that this process has open, one for each descriptor. */
export function openFilesIn(folder: string): readonly string[] {
  return readdirSync("/proc/self/fd").flatMap((descriptor) => {
    try {
      const path = readlinkSync(`/proc/self/fd/${descriptor}`);
      return path.startsWith(`${folder}/`) ? [path] : [];
    } catch {
      // Closed since, like the one by which the folder was read.
      return [];
    }
  });
}
