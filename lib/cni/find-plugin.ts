/** Which file an IPAM plugin's name means (C§2.5). */
import { TortieError } from "../errors/errors.ts";
import { lookUpPlugin } from "./plugin-file.ts";

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
  const { directories, candidates, executable } = lookUpPlugin(name, cniPath);
  if (directories.length === 0) throw new TortieError("delegate-not-found", `no paths provided to look for plugin ${JSON.stringify(name)}`);
  if (executable !== undefined) return executable;
  const hint = candidates.length > 0 ? `: ${candidates.join(", ")} may not be executed` : "";
  throw new TortieError("delegate-not-found", `failed to find plugin ${JSON.stringify(name)} in path [${directories.join(" ")}]${hint}`);
}
