/** Which file an IPAM plugin's name means (C§2.5). */
import { TortieError } from "../errors/errors.ts";
import { isExecutable, statusOf } from "../system/files.ts";

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

  const candidates = directories.map((directory) => `${directory}/${name}`).filter((path) => look(path)?.isFile === true);
  const executable = candidates.find(isExecutable);
  if (executable !== undefined) return executable;
  const hint = candidates.length > 0 ? `: ${candidates.join(", ")} may not be executed` : "";
  throw new TortieError("delegate-not-found", `failed to find plugin ${JSON.stringify(name)} in path [${directories.join(" ")}]${hint}`);
}

/** Whether `path` is the very file that is running: same device, same inode. */
export function isRunningExecutable(path: string): boolean {
  const file = look(path);
  return file !== undefined && file.identity === look("/proc/self/exe")?.identity;
}

/** What cannot be looked at is as good as not there. */
function look(path: string): ReturnType<typeof statusOf> {
  try {
    return statusOf(path);
  } catch {
    return undefined;
  }
}
