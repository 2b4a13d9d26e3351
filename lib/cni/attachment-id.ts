/** Identifies what CNI adds and deletes: two attachments are the same when all three names are. */

import { sha256 } from "../system/hash.ts";
import type { CniRequest, ValidAttachment } from "./protocol.ts";

export interface AttachmentId {
  readonly network: string;
  readonly containerId: string;
  /** Inside the sandbox. */
  readonly ifname: string;
}

export function attachmentOf({
  network,
  containerId,
  interfaceName,
}: Pick<CniRequest, "network" | "containerId" | "interfaceName">): AttachmentId {
  return { network, containerId, ifname: interfaceName };
}

export function isSameAttachment(one: AttachmentId, other: AttachmentId): boolean {
  return lineKey(one) === lineKey(other);
}

/** Tells whether the list of a GC, which is of one network, names the attachment. */
export function isListed(list: readonly ValidAttachment[], { containerId, ifname }: Pick<AttachmentId, "containerId" | "ifname">): boolean {
  return list.some((one) => one.containerID === containerId && one.ifname === ifname);
}

/** Makes the key of an attachment in maps, and in a request's path (A§2.2): no part but the last can hold a ":". */
export function lineKey({ network, containerId, ifname }: AttachmentId): string {
  return `${network}:${containerId}:${ifname}`;
}

/** Reads the attachment of a key that `lineKey` made. */
export function attachmentOfLineKey(key: string): AttachmentId {
  const [network = "", containerId = "", ...ifname] = key.split(":");
  return { network, containerId, ifname: ifname.join(":") };
}

/**
 * Names the attachment's files in the run directory and chooses its lock: SHA-256 in hexadecimal digits. None of the three names may hold
 * a slash (CNI specification), so no two attachments meet.
 */
export function fileKey({ network, containerId, ifname }: AttachmentId): string {
  return sha256(`${network}/${containerId}/${ifname}`);
}
