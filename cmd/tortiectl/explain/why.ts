/** Says why an attachment got this address, of this pool and this block, by the rules of the allocator (I§3). */
import type { AttachmentFacts } from "../../../doctor/explain/facts.ts";
import { ANNOTATION_PREFIX } from "../../../lib/workload/annotations/annotation.ts";
import type { Sources } from "./sources.ts";

interface Granted {
  /** Canonical. */
  readonly address: string;
  readonly node: string | undefined;
  /** "host n1": the block's. */
  readonly owner: string | undefined;
  /** "10.244.0.0/16 (default)". */
  readonly pool: string | undefined;
  readonly standing: string;
}

type User = Pick<AttachmentFacts, "shown" | "requested" | "ofNamespace"> | undefined;

export function whyThis(granted: Granted, user: User, { lists }: Pick<Sources, "lists">): string {
  const asked = whoAsked(granted.address, user);
  return `${asked ?? poolReason(granted, user, lists)}; ${blockReason(granted, asked !== undefined)}`;
}

/** @returns `undefined` where nobody asked for the very address */
function whoAsked(address: string, user: User): string | undefined {
  if (user?.shown.annotations[`${ANNOTATION_PREFIX}ipAddrs`]?.includes(`"${address}"`)) return "the pod's annotation ipAddrs asks for it";
  if (user?.requested?.includes(address)) return "the runtime asks for it, by runtimeConfig.ips or IP= of CNI_ARGS";
  return undefined;
}

function poolReason({ address, pool }: Granted, user: User, lists: Sources["lists"]): string {
  if (pool === undefined) return "no pool holds it any more: it was granted by one that has been removed or changed";
  const family = address.includes(":") ? "ipv6" : "ipv4";
  const key = `${ANNOTATION_PREFIX}${family}pools`;
  const [ofPod, ofNamespace] = [user?.shown.annotations[key] ?? "", user?.ofNamespace?.[key] ?? ""];
  if (ofPod !== "") return `pool ${pool}, one of those that the pod's annotation ${family}pools names: ${ofPod}`;
  if (ofNamespace !== "") return `pool ${pool}, one of those that the namespace's annotation ${family}pools names: ${ofNamespace}`;
  const { ipam } = lists.find(({ list }) => list.name === user?.shown.network)?.config ?? {};
  const named = (family === "ipv4" ? ipam?.ipv4Pools : ipam?.ipv6Pools) ?? [];
  if (named.length === 0) return `pool ${pool}, the first enabled one of its family that the node and the namespace allow`;
  const isRead = user?.ofNamespace !== undefined || user?.shown.pod === undefined;
  const doubt = isRead ? "" : ", unless the namespace, which could not be read, names others";
  return `pool ${pool}, one of those that the network configuration names (${named.join(", ")})${doubt}`;
}

function blockReason({ node, owner, standing }: Granted, isAsked: boolean): string {
  if (standing.includes("borrowed")) {
    const borrowed = `borrowed from a block of ${owner ?? "nobody"}`;
    return isAsked ? borrowed : `${borrowed}: no block of ${node ?? "this node"} had a free address, and none could be claimed`;
  }
  if (owner === undefined) return "its block belongs to no node";
  return isAsked ? `its block belongs to ${owner}` : `its block belongs to ${owner}, and this was the next free address of it`;
}
