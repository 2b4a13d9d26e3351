/**
 * The alias of a host end says whose it is: `tortie:<network>/<containerID>/<ifname>`. Neither part can hold a "/", nor the first two a
 * ":", so that the text is read back without guessing (I§1.2).
 */

/** What a link serves (design: an attachment). */
export interface AttachmentName {
  readonly network: string;
  readonly containerId: string;
  readonly interfaceName: string;
}

/** Longest alias in bytes: IFALIASZ less the terminating zero (include/uapi/linux/if.h). */
const MAX_ALIAS_BYTES = 255;

/** Stands before a digest; no network name and no container id has a ":". */
const DIGEST_MARK = "sha256:";

/**
 * An identity too long for the kernel (network name and container id of more than 230 characters together) becomes
 * `tortie:sha256:<hex digits of the identity's SHA-256>`. Such an alias can be compared but not read back: `parseAttachmentAlias`
 * answers `undefined`, and GC leaves the link to the DEL of its container.
 */
export function attachmentAlias(attachment: AttachmentName): string {
  const alias = `${attachmentAliasPrefix(attachment.network)}${attachment.containerId}/${attachment.interfaceName}`;
  if (new TextEncoder().encode(alias).length <= MAX_ALIAS_BYTES) return alias;
  return `tortie:${DIGEST_MARK}${new Bun.CryptoHasher("sha256").update(alias).digest("hex")}`;
}

/** How the readable aliases of a network begin. */
export function attachmentAliasPrefix(network: string): string {
  return `tortie:${network}/`;
}

/** @returns `undefined` for anything that is not a readable alias of ours */
export function parseAttachmentAlias(alias: string): AttachmentName | undefined {
  const parts = /^tortie:([^/:]+)\/([^/:]+)\/([^/]+)$/.exec(alias);
  if (parts === null) return undefined;
  const [, network = "", containerId = "", interfaceName = ""] = parts;
  return { network, containerId, interfaceName };
}
