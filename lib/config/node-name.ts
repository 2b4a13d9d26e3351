/** The name of this node (C§1.6), and the file that the node agent announces itself with (C§1.2). */
import { messageOf, TortieError } from "../errors/errors.ts";
import { hostName, readText, statusOf } from "../system/files.ts";
import type { DatastoreType, NetworkConfig } from "./network-config.ts";

type Naming = Pick<NetworkConfig, "nodename" | "nodenameFile" | "hostname">;

/**
 * `nodename`, else the content of the nodename file, else `hostname`, else the operating system's host name in lower case.
 * The file's content is trimmed: a final newline must not become part of the name (design §8, recording nodename-newline).
 */
export function nodeName(config: Naming, operatingSystemName: () => string = hostName): string {
  return config.nodename ?? fileContent(config.nodenameFile) ?? config.hostname ?? operatingSystemName().trim().toLowerCase();
}

/**
 * The node agent must have written its file, even where `nodename` is set (C§1.2). With the local datastore there is no agent, and
 * nothing is checked.
 *
 * @throws TortieError `nodename-file-missing`
 */
export function checkNodenameFile(config: Pick<NetworkConfig, "nodenameFile" | "nodenameFileOptional">, datastore: DatastoreType): void {
  if (datastore === "local" || config.nodenameFileOptional) return;
  const problem = problemOf(config.nodenameFile);
  if (problem === undefined) return;
  const hint = "check that the calico/node container is running and has mounted /var/lib/calico/";
  throw new TortieError("nodename-file-missing", `${problem}: ${hint}`);
}

/** Only its existence counts (C§1.2). */
function problemOf(path: string): string | undefined {
  try {
    return statusOf(path) === undefined ? `stat ${path}: no such file or directory` : undefined;
  } catch (error) {
    return messageOf(error);
  }
}

/** `undefined` when the file cannot be read or holds nothing: the next source is asked. */
function fileContent(path: string): string | undefined {
  try {
    return readText(path).trim() || undefined;
  } catch {
    return undefined;
  }
}
