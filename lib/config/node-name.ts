/** Finds the name of this node (C§1.6), and the file that the node agent announces itself with (C§1.2). */
import { messageOf, TortieError } from "../errors/errors.ts";
import { systemErrorCode, systemErrorText } from "../system/errno.ts";
import { directoryOf, hostName, ifReadable, isThere, readText, statusOf } from "../system/files.ts";
import type { DatastoreType, NetworkConfig } from "./decode.ts";

type Naming = Pick<NetworkConfig, "nodename" | "nodenameFile" | "hostname">;

/**
 * `nodename`, else the content of the nodename file, else `hostname`, else the operating system's host name in lower case.
 * The file's content is trimmed: a final newline must not become part of the name (design §8, recording nodename-newline).
 */
export function nodeName(config: Naming, operatingSystemName: () => string = hostName): string {
  return config.nodename ?? fileContent(config.nodenameFile) ?? config.hostname ?? operatingSystemName().trim().toLowerCase();
}

/** A host name: capital letters and "_" occur in those of hosts; a damaged file has other characters, or a second line. */
const NODE_NAME = /^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$/;

/** Checks the name under which this node will have addresses. @throws TortieError `nodename-invalid` */
export function assertNodeName(name: string): void {
  if (NODE_NAME.test(name)) return;
  const text = JSON.stringify(name.slice(0, SHOWN));
  throw new TortieError("nodename-invalid", `the name of this node is ${text}, which is no host name (nodename, or the nodename file)`);
}

/** Characters of a file that a message repeats. */
const SHOWN = 60;

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
  // The kubelet makes the directory before calico/node runs.
  const hint = isThere(directoryOf(config.nodenameFile))
    ? "check that the calico/node container is running and has mounted /var/lib/calico/"
    : "no agent of Calico has been on this host";
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
  return ifReadable(() => readText(path).trim() || undefined);
}

/** Written by Felix: decimal bytes, the smallest MTU of the encapsulations in use. The path is fixed (C§1.6). */
export const MTU_FILE = "/var/lib/calico/mtu";

/**
 * Finds the MTU of a new link (C§1.6): `mtu` of the network configuration if it is not 0, else what the file says, else 0: no MTU is given
 * to the kernel. A damaged file is an error even where `mtu` is set, and so is a missing one with `require_mtu_file`.
 *
 * @throws TortieError `mtu-file-invalid`: "failed to read MTU file: …"
 */
export function resolveMtu(config: Pick<NetworkConfig, "mtu" | "requireMtuFile">, file: string = MTU_FILE): number {
  const fromFile = readMtuFile(file, config.requireMtuFile);
  return config.mtu !== 0 ? config.mtu : fromFile;
}

function readMtuFile(file: string, isRequired: boolean): number {
  if (!isRequired && !isThere(file)) return 0;
  let content: string;
  try {
    content = readText(file).trim();
  } catch (cause) {
    if (systemErrorCode(cause) === "ENOENT" && !isRequired) return 0;
    const reason = `open ${file}: ${systemErrorText(cause) ?? messageOf(cause)}`;
    throw new TortieError("mtu-file-invalid", `failed to read MTU file: ${reason}`, { cause });
  }
  const mtu = /^[+-]?\d+$/.test(content) ? Number(content) : Number.NaN;
  if (!Number.isSafeInteger(mtu)) {
    throw new TortieError(
      "mtu-file-invalid",
      `failed to read MTU file: ${file} holds ${JSON.stringify(content.slice(0, SHOWN))}, not a decimal number`,
    );
  }
  return mtu;
}
