/**
 * Writes and reads the alias of a host end, which says whose it is: `tortie:<network>/<containerID>/<ifname>`, for a Kubernetes pod followed by
 * `/<namespace>/<pod>`. None of the first three parts can hold a "/", nor the first two a ":", so that the text is read back without
 * guessing (I§1.2).
 *
 * The kernel keeps 255 bytes. Where names are longer, the pod becomes a digest first, and then the attachment does.
 */
import { sha256 } from "../lib/system/hash.ts";

/** Names what a link serves: network, container id and interface name identify an attachment. */
export interface AttachmentName {
  readonly network: string;
  readonly containerId: string;
  readonly ifname: string;
  /** `<namespace>/<pod>`, of which the host end's name is made; absent for a plain container, and in aliases of older versions. */
  readonly workload?: string;
}

/** Limits an alias in bytes: IFALIASZ less the terminating zero (include/uapi/linux/if.h). */
const MAX_ALIAS_BYTES = 255;

const MARK = "tortie:";
/** Stands before a digest; no network name, container id or namespace has a ":". */
const DIGEST_MARK = "sha256:";
/** Keeps 128 bits of a pod's digest: enough that no second name with the same digest can be found. */
const POD_DIGITS = 32;

const READABLE = /^tortie:([^/:]+)\/([^/:]+)\/([^/]+?)(?:\/(sha256:[0-9a-f]{32}|[^/:]+\/[^/]+))?$/;
const DIGESTED = /^tortie:(sha256:[0-9a-f]{64})(?:\/(sha256:[0-9a-f]{32}))?$/;

/**
 * Writes the alias. An identity too long for the kernel (network name and container id of some 190 characters together) becomes
 * `tortie:sha256:<hex digits of the identity's SHA-256>`. Such an alias can be compared but not read back: `parseAttachmentAlias`
 * answers `undefined`, and GC leaves the link to the DEL of its container.
 */
export function attachmentAlias(attachment: AttachmentName): string {
  const { workload } = attachment;
  const identity = identityOf(attachment);
  const tails = workload === undefined ? [""] : [...(isReadable(workload) ? [`/${workload}`] : []), `/${podDigest(workload)}`];
  for (const tail of tails) {
    if (fits(MARK + identity + tail)) return MARK + identity + tail;
  }
  return MARK + identityDigest(identity) + (tails.at(-1) ?? "");
}

/** @returns `undefined` for anything that is not a readable alias of ours; a pod that is only a digest is left out */
export function parseAttachmentAlias(alias: string): AttachmentName | undefined {
  const parts = READABLE.exec(alias);
  if (parts === null) return undefined;
  const [, network = "", containerId = "", ifname = "", workload] = parts;
  const isNamed = workload !== undefined && !workload.startsWith(DIGEST_MARK);
  return { network, containerId, ifname, ...(isNamed ? { workload } : {}) };
}

/** Tells whether Tortie wrote this alias, for any attachment. */
export function isAttachmentAlias(alias: string): boolean {
  return alias.startsWith(MARK);
}

/** Tells whether an alias names this attachment, with its pod or, as older versions wrote it, without. */
export function namesAttachment(alias: string, attachment: AttachmentName): boolean {
  const identity = identityOf(attachment);
  const parsed = parseAttachmentAlias(alias);
  return parsed === undefined ? DIGESTED.exec(alias)?.[1] === identityDigest(identity) : identityOf(parsed) === identity;
}

/** Tells whether an alias names a pod at all; `namesWorkload` tells which. */
export function hasWorkload(alias: string): boolean {
  return podOf(alias) !== undefined;
}

/** Tells whether an alias names this pod, `<namespace>/<pod>`, whatever the container. */
export function namesWorkload(alias: string, workload: string): boolean {
  const pod = podOf(alias);
  return pod !== undefined && (pod === workload || pod === podDigest(workload));
}

function podOf(alias: string): string | undefined {
  const parts = DIGESTED.exec(alias);
  return parts === null ? READABLE.exec(alias)?.[4] : parts[2];
}

function identityOf({ network, containerId, ifname }: AttachmentName): string {
  return `${network}/${containerId}/${ifname}`;
}

function isReadable(workload: string): boolean {
  return /^[^/:]+\/[^/]+$/.test(workload);
}

function fits(alias: string): boolean {
  return new TextEncoder().encode(alias).length <= MAX_ALIAS_BYTES;
}

function identityDigest(identity: string): string {
  return DIGEST_MARK + sha256(MARK + identity);
}

function podDigest(workload: string): string {
  return DIGEST_MARK + sha256(workload).slice(0, POD_DIGITS);
}
