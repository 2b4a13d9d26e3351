/** Finds files of CNI_PATH, and the one that is running. Throws nothing: also part of the short way to the agent (A§3.10). */
import { isExecutable, statusIfSeen } from "../system/files.ts";

interface PluginFiles {
  /** Of CNI_PATH, each once, without empty ones. */
  readonly directories: readonly string[];
  /** Regular files of the plugin's name, after symbolic links, in the order of the directories. */
  readonly candidates: readonly string[];
  /** The first of them that may be executed. */
  readonly executable: string | undefined;
}

/**
 * @param name `ipam.type`
 * @param cniPath directories joined by ":"
 */
export function lookUpPlugin(name: string, cniPath: string): PluginFiles {
  const directories = [...new Set(cniPath.split(":"))].filter((directory) => directory !== "");
  const candidates = directories.map((directory) => `${directory}/${name}`).filter((path) => statusIfSeen(path)?.isFile === true);
  return { directories, candidates, executable: candidates.find(isExecutable) };
}

/** Tells whether `path` is the very file that is running: same device, same inode. */
export function isRunningExecutable(path: string): boolean {
  const file = statusIfSeen(path);
  return file !== undefined && file.identity === statusIfSeen("/proc/self/exe")?.identity;
}
