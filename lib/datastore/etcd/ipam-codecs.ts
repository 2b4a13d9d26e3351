/** The IPAM objects that only etcd keeps flat, without kind and metadata (I§2.9). The shapes inside are those of Kubernetes. */

import { type Fields, field, flag, has, isNumber, text } from "../../json/decode.ts";
import type { AffinityKey, BlockOwner } from "../datastore.ts";
import { affinityStateOf } from "../kubernetes/codecs/affinity-codec.ts";
import { decodeBlock, encodeBlock, quoteSequenceNumbers, verifyBlock } from "../kubernetes/codecs/block-codec.ts";
import { handleCounts, untilCarriageReturn } from "../kubernetes/codecs/handle-codec.ts";
import type { Block, BlockAffinity, Handle, IpamConfiguration } from "../resources.ts";
import { type EtcdCodec, flatCodec } from "./codec.ts";

const IPAM = "/calico/ipam/v2";
export const BLOCKS = `${IPAM}/assignment/`;
export const HANDLES = `${IPAM}/handle/`;
/** Where the affinities of each type of owner lie. */
export const AFFINITIES: Readonly<Record<BlockOwner["type"], string>> = { host: `${IPAM}/host/`, virtual: `${IPAM}/virtual/` };

/** A CIDR as a key: only the slash becomes a dash. */
function familyPath(cidr: string): string {
  return `ipv${cidr.includes(":") ? 6 : 4}/block/${cidr.replace("/", "-")}`;
}

export const blockCodec: EtcdCodec<string, Block> = flatCodec({
  title: "IPAMBlock",
  known: new Set([
    "cidr",
    "affinity",
    "affinity_claim_time",
    "allocations",
    "unallocated",
    "attributes",
    "sequenceNumber",
    "sequenceNumberForAllocation",
    "deleted",
  ]),
  keyOf: (cidr) => BLOCKS + familyPath(cidr),
  prepare: quoteSequenceNumbers,
  decode: ({ affinity_claim_time: affinityClaimTime, ...stored }, key) =>
    decodeBlock({ ...stored, affinityClaimTime }, `IPAMBlock(${key})`),
  verify: verifyBlock,
  encode: (block) => {
    const { affinityClaimTime, strictAffinity, affinity, ...others } = encodeBlock(block);
    // Calico's clients write null for a block without owner, and read nothing else as none.
    return { ...others, affinity: affinity ?? null, affinity_claim_time: affinityClaimTime };
  },
});

const AFFINITY = /^\/calico\/ipam\/v2\/(host|virtual)\/(.+)\/ipv[46]\/block\/(.+)-(\d+)$/;

/** Whether a key below an owner is that of an affinity; a host's marker lies there too. */
export function isAffinityKey(key: string): boolean {
  return AFFINITY.test(key);
}

export function affinityPrefix({ type, name }: BlockOwner, family: 4 | 6): string {
  return `${AFFINITIES[type]}${name}/ipv${family}/block/`;
}

export const affinityCodec: EtcdCodec<AffinityKey, BlockAffinity> = flatCodec<AffinityKey, BlockAffinity>({
  title: "BlockAffinity",
  known: new Set(["state", "deleted"]),
  keyOf: ({ owner, cidr }) => `${AFFINITIES[owner.type]}${owner.name}/${familyPath(cidr)}`,
  // Calico reads an empty value as a confirmed affinity.
  prepare: (json) => (json === "" ? "{}" : json),
  decode: (stored, key) => {
    const [, type, name = "", address = "", length = ""] = AFFINITY.exec(key) ?? [];
    if (type !== "host" && type !== "virtual") throw new Error("its key is none of an affinity");
    // Look-ups go by the key, so that there are no labels that could be missing.
    return { owner: { type, name }, cidr: `${address}/${length}`, state: affinityStateOf(stored), labelled: true };
  },
  encode: ({ state }) => ({ state, deleted: false }),
});

export const handleCodec: EtcdCodec<string, Handle> = flatCodec({
  title: "IPAMHandle",
  known: new Set(["block", "deleted"]),
  keyOf: (id) => HANDLES + id,
  decode: (stored, key) => ({ id: untilCarriageReturn(key.slice(HANDLES.length)), blocks: handleCounts(stored) }),
  encode: ({ blocks }) => ({ block: blocks, deleted: false }),
});

/** The allocator's own key, beside which the resource IPAMConfiguration exists (I§2.9). Members that are false or 0 are left out. */
export const configurationCodec: EtcdCodec<"default", IpamConfiguration> = flatCodec({
  title: "IPAMConfig",
  known: new Set(["strict_affinity", "auto_allocate_blocks", "maxBlocksPerHost", "kubeVirtVMAddressPersistence", "ipCooldownSeconds"]),
  keyOf: () => `${IPAM}/config`,
  decode: (stored) => ({
    strictAffinity: flag(stored, "strict_affinity"),
    autoAllocateBlocks: flag(stored, "auto_allocate_blocks"),
    maxBlocksPerHost: count(stored, "maxBlocksPerHost"),
    kubeVirtVMAddressPersistence: text(stored, "kubeVirtVMAddressPersistence") || "Enabled",
    ipCooldownSeconds: count(stored, "ipCooldownSeconds"),
  }),
  encode: (configuration) => ({
    strict_affinity: configuration.strictAffinity || undefined,
    auto_allocate_blocks: configuration.autoAllocateBlocks || undefined,
    maxBlocksPerHost: configuration.maxBlocksPerHost || undefined,
    kubeVirtVMAddressPersistence: configuration.kubeVirtVMAddressPersistence,
    ipCooldownSeconds: configuration.ipCooldownSeconds || undefined,
  }),
});

function count(stored: Fields, name: string): number {
  return has(stored, name) ? field(stored, name, isNumber) : 0;
}
