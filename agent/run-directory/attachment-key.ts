/** Which file is an attachment's: the name of its delete-queue entry and of its direct record, and the choice of its lock. */

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
