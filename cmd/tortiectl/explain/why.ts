/** Says why an attachment got an address of this pool and this block, by the rules of the allocator (I§3). */
import type { ExplainedAttachment } from "../../../doctor/explain/explanation.ts";
import type { Sources } from "./sources.ts";

interface Granted {
  readonly node: string | undefined;
  /** "node n1": the block's. */
  readonly owner: string | undefined;
  /** "10.244.0.0/16 (default)". */
  readonly pool: string | undefined;
  readonly standing: string;
}

export function whyThis({ node, owner, pool, standing }: Granted, attachment: ExplainedAttachment | undefined, sources: Sources): string {
  return `${poolReason(pool, attachment, sources)}; ${blockReason({ node, owner, standing })}`;
}

function poolReason(pool: string | undefined, attachment: ExplainedAttachment | undefined, { lists }: Sources): string {
  if (pool === undefined) return "no pool holds it any more: it was granted by one that has been removed or changed";
  const { ipam } = lists.find(({ list }) => list.name === attachment?.network)?.config ?? {};
  const named = [...(ipam?.ipv4Pools ?? []), ...(ipam?.ipv6Pools ?? [])];
  if (named.length > 0 && attachment?.pod === undefined)
    return `pool ${pool}, one of those that the network configuration names (${named.join(", ")})`;
  return `pool ${pool}, the first enabled one of its family that the node, the namespace and the pod's annotations allow`;
}

function blockReason({ node, owner, standing }: Omit<Granted, "pool">): string {
  if (standing.includes("borrowed"))
    return `borrowed from a block of ${owner ?? "nobody"}: no block of ${node ?? "this node"} had a free address, and none could be claimed`;
  return owner === undefined ? "its block belongs to no node" : `its block belongs to ${owner}, and this was its first free address`;
}
