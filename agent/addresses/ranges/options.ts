/** Reads what the agent's flags say about the node's ranges (A§1.1), before anything else happens: bad text is fatal. */
import { type Address, contains, type Family, maskPrefix, type Prefix, parseAddress, parsePrefix } from "../../../lib/addresses/address.ts";
import { TortieError } from "../../../lib/errors/errors.ts";
import type { AgentOptions } from "../../start/options.ts";

/** `auto`: what Kubernetes says; outside of it an automatic one. `auto-host`: an automatic one where nothing else is said. */
type RangeOption = { readonly kind: "auto" } | { readonly kind: "auto-host" } | { readonly kind: "cidr"; readonly prefix: Prefix };

export interface FamilyOptions {
  readonly family: Family;
  readonly range: RangeOption;
  /** The node object must bring the range. */
  readonly isRequired: boolean;
  /** The node's own address; absent: found. */
  readonly nodeAddress?: Address;
}

export interface NodeCidrOptions {
  /** Families that are switched on, IPv4 first. */
  readonly families: readonly FamilyOptions[];
  /** The /64 that automatic IPv6 ranges come from. */
  readonly clusterPrefix: Prefix;
  readonly readsCiliumAnnotations: boolean;
  /** Where all ranges of the cluster lie, as far as an administrator has said; empty: not said. */
  readonly clusterCidrs: readonly Prefix[];
}

type FamilyFlags = `enable-ipv${Family}` | `ipv${Family}-range` | `ipv${Family}-node` | `require-ipv${Family}-pod-cidr`;
export type NodeCidrFlags = Pick<AgentOptions, FamilyFlags | "ipv6-cluster-alloc-cidr" | "read-cilium-annotations" | "cluster-cidr">;

/** 2000::/3 and the unique local addresses fc00::/7. */
const GLOBAL_UNICAST: readonly Prefix[] = [
  { address: { family: 6, value: 0x2000n << 112n }, length: 3 },
  { address: { family: 6, value: 0xfc00n << 112n }, length: 7 },
];

/** @throws TortieError `option-invalid` with the value */
export function nodeCidrOptions(flags: NodeCidrFlags): NodeCidrOptions {
  const families = ([4, 6] as const).filter((family) => flags[`enable-ipv${family}`]);
  if (families.length === 0) throw new TortieError("option-invalid", "Either IPv4 or IPv6 addressing must be enabled");
  return {
    families: families.map((family) => ({
      family,
      range: rangeOption(flags, family),
      isRequired: flags[`require-ipv${family}-pod-cidr`],
      ...nodeAddress(flags, family),
    })),
    clusterPrefix: clusterPrefix(flags["ipv6-cluster-alloc-cidr"]),
    readsCiliumAnnotations: flags["read-cilium-annotations"],
    clusterCidrs: clusterCidrsOf(flags["cluster-cidr"]),
  };
}

/** Reads a text such as "10.244.0.0/16,fd00::/48". @throws TortieError `option-invalid` naming the part that cannot be read as a CIDR */
export function clusterCidrsOf(text: string): readonly Prefix[] {
  if (text === "") return [];
  return text.split(",").map((part) => {
    const prefix = parsePrefix(part.trim());
    if (prefix !== undefined) return maskPrefix(prefix);
    throw new TortieError("option-invalid", `--cluster-cidr: ${JSON.stringify(part)} is no CIDR`);
  });
}

function rangeOption(flags: NodeCidrFlags, family: Family): RangeOption {
  const text = flags[`ipv${family}-range`];
  if (text === "auto" || text === "auto-host") return { kind: text };
  const prefix = parsePrefix(text);
  if (prefix?.address.family === family) return { kind: "cidr", prefix: maskPrefix(prefix) };
  throw new TortieError(
    "option-invalid",
    `--ipv${family}-range: ${JSON.stringify(text)} is neither an IPv${family} CIDR, auto, nor auto-host`,
  );
}

function nodeAddress(flags: NodeCidrFlags, family: Family): { readonly nodeAddress?: Address } {
  const text = flags[`ipv${family}-node`];
  if (text === "auto") return {};
  const address = parseAddress(text);
  if (address?.family !== family) {
    throw new TortieError("option-invalid", `--ipv${family}-node: ${JSON.stringify(text)} is neither an IPv${family} address nor auto`);
  }
  if (family === 6 && !GLOBAL_UNICAST.some((prefix) => contains(prefix, address))) {
    throw new TortieError("option-invalid", `--ipv6-node: ${text} is not a global unicast address`);
  }
  return { nodeAddress: address };
}

function clusterPrefix(text: string): Prefix {
  const prefix = parsePrefix(text);
  if (prefix?.address.family !== 6)
    throw new TortieError("option-invalid", `--ipv6-cluster-alloc-cidr: ${JSON.stringify(text)} is no IPv6 CIDR`);
  if (prefix.length !== 64) throw new TortieError("option-invalid", `--ipv6-cluster-alloc-cidr: ${text}: CIDR length must be /64`);
  return maskPrefix(prefix);
}
