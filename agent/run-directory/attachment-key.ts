/** The key of an attachment, what CNI adds and deletes: in the names of its files, and of its lock. */

export interface AttachmentId {
  readonly network: string;
  readonly containerId: string;
  /** Inside the sandbox. */
  readonly interfaceName: string;
}

/** SHA-256 in hexadecimal digits. None of the three names may hold a slash (CNI specification), so no two attachments meet. */
export function attachmentKey({ network, containerId, interfaceName }: AttachmentId): string {
  return new Bun.CryptoHasher("sha256").update(`${network}/${containerId}/${interfaceName}`).digest("hex");
}
