/** Which file an IPAM plugin's name means (C§2.5). */
import { accessSync, type BigIntStats, constants, statSync } from "node:fs";
import { join } from "node:path";
import { TortieError } from "../errors.ts";

/**
 * Looks a plugin up in the directories of CNI_PATH, first come first served: a regular file, after symbolic links, that may be executed.
 *
 * @param name `ipam.type`
 * @param cniPath directories joined by ":"
 * @throws TortieError `delegate-not-found`
 */
export function findPlugin(name: string, cniPath: string): string {
  if (name === "")
    throw new TortieError("delegate-not-found", "no plugin name provided", { next: "set ipam.type in the network configuration" });
  if (name.includes("/"))
    throw new TortieError("delegate-not-found", `invalid plugin name: ${name}`, { next: "ipam.type is a file name, not a path" });
  const directories = cniPath.split(":").filter((directory) => directory !== "");
  if (directories.length === 0) throw new TortieError("delegate-not-found", `no paths provided to look for plugin ${JSON.stringify(name)}`);

  const candidates = directories.map((directory) => join(directory, name)).filter((path) => stat(path)?.isFile() === true);
  const executable = candidates.find(isExecutable);
  if (executable !== undefined) return executable;
  const hint = candidates.length > 0 ? `: ${candidates.join(", ")} may not be executed` : "";
  throw new TortieError("delegate-not-found", `failed to find plugin ${JSON.stringify(name)} in path [${directories.join(" ")}]${hint}`);
}

/** Whether `path` is the very file that is running: same device, same inode. */
export function isRunningExecutable(path: string): boolean {
  const [file, self] = [stat(path), stat("/proc/self/exe")];
  return file !== undefined && self !== undefined && file.dev === self.dev && file.ino === self.ino;
}

/** In bigints, since inode numbers may need 64 bits. */
function stat(path: string): BigIntStats | undefined {
  try {
    return statSync(path, { bigint: true });
  } catch {
    return undefined;
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
