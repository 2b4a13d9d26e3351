/**
 * Decides which routes and tunnels join this node with the others, purely from what the cluster says.
 *
 * - A block of another node leads to that node, directly within this node's subnet or through VXLAN, as the block's pool says.
 * - A block of this node leads nowhere: each pod has a route of its own, and what is sent to any other address of the block ends here.
 * - An address that is in use on another node than its block's owner has a route of its own, on every node but the one that uses it.
 */
import type { NodeNetwork, NodeRoute, VxlanPeer, VxlanTunnel } from "../../dataplane/dataplane.ts";
import {
  type Address,
  bitsOf,
  contains,
  type Family,
  formatAddress,
  formatPrefix,
  hostPrefix,
  NEVER_A_WORKLOAD,
  overlaps,
  type Prefix,
} from "../../lib/addresses/address.ts";
import {
  addressOf,
  type ClusterView,
  DisjointPrefixes,
  FAMILIES,
  type OwnNode,
  PORT,
  type ProvenNode,
  poolOf,
  type RoutedPool,
  tunnelMac,
  VNI,
  VXLAN,
} from "./model.ts";

export interface NetworkPlan {
  readonly network: NodeNetwork;
  /** Why addresses of other nodes have no route, and how many blocks and single addresses that concerns. */
  readonly unserved: ReadonlyMap<string, number>;
}

export function planNodeRoutes(own: OwnNode, view: ClusterView, mayTunnel: boolean): NetworkPlan {
  const peers = new Map(view.nodes.filter(({ name }) => name !== own.name).map((node) => [node.name, node]));
  const unserved = new Map<string, number>();
  const routes = new Map<string, NodeRoute>();
  const shadows = new Shadows(own, view);
  const lead = (destination: Prefix, node: string, borrowedFrom?: Prefix) => {
    if (!peers.has(node)) return;
    const key = formatPrefix(destination);
    const shadowed = shadows.of(destination, borrowedFrom) ?? (routes.has(key) ? "is another node's too" : undefined);
    const way = shadowed === undefined ? routeTo(destination, node, { own, peers, view, mayTunnel }) : `${key} of node ${node} ${shadowed}`;
    if (typeof way === "string") unserved.set(way, (unserved.get(way) ?? 0) + 1);
    else if (way !== undefined) routes.set(key, way);
  };
  for (const { cidr, owner, borrowed } of view.blocks) {
    if (owner === own.name) for (const route of blackhole(cidr)) routes.set(formatPrefix(cidr), route);
    else if (owner !== undefined) lead(cidr, owner);
    for (const { address, node } of borrowed) if (node !== own.name) lead(hostPrefix(address), node, cidr);
  }
  const tunnels = FAMILIES.flatMap((family) => tunnelOf(own, family, peers) ?? []);
  return { network: { tunnels, routes: [...gatewayRoutes(routes), ...routes.values()] }, unserved };
}

interface Context {
  readonly own: OwnNode;
  readonly peers: ReadonlyMap<string, ProvenNode>;
  readonly view: ClusterView;
  readonly mayTunnel: boolean;
}

/** @returns the route, or why it cannot be made; `undefined` for a node that does not exist, which only its leftovers name */
function routeTo(destination: Prefix, node: string, { own, peers, view, mayTunnel }: Context): NodeRoute | string | undefined {
  const { family } = destination.address;
  const peer = peers.get(node);
  if (peer === undefined) return undefined;
  const [here, there] = [own.underlay[family]?.address, addressOf(peer, family)];
  if (here === undefined) return `this node has no IPv${family} address`;
  if (there === undefined) return `node ${node} has no IPv${family} address`;
  const pool = poolOf(destination, view.pools);
  const [end, gateway] = [own.tunnels[family], peer.tunnels[family]?.address];
  const areJoined = end !== undefined && gateway !== undefined;
  const way = pool === undefined ? wayWithoutPool(areJoined, contains(here, there)) : wayTo(pool, here, there, mayTunnel);
  if (typeof way === "object") return way.reason;
  if (way === "direct") return { kind: "direct", destination, gateway: there };
  if (end === undefined) return `this node has no IPv${family} tunnel address`;
  if (gateway === undefined) return `node ${node} has no IPv${family} tunnel address`;
  return { kind: "tunnel", destination, gateway, device: VXLAN[family].device };
}

/** Makes a blackhole for a block, except for one of a single address, which is its pod's. */
function blackhole(destination: Prefix): NodeRoute[] {
  return destination.length === bitsOf(destination.address.family) ? [] : [{ kind: "blackhole", destination }];
}

/** Makes what leads to the gateways of IPv6 routes, before those routes (dataplane/node-state.ts). */
function gatewayRoutes(routes: ReadonlyMap<string, NodeRoute>): NodeRoute[] {
  const found = new Map<string, NodeRoute>();
  for (const route of routes.values()) {
    if (route.kind !== "tunnel" || route.gateway?.family !== 6) continue;
    const destination = hostPrefix(route.gateway);
    const key = formatPrefix(destination);
    if (!routes.has(key)) found.set(key, { kind: "tunnel", destination, device: route.device });
  }
  return [...found.values()];
}

function tunnelOf(own: OwnNode, family: Family, peers: ReadonlyMap<string, ProvenNode>): VxlanTunnel | undefined {
  const [end, underlay] = [own.tunnels[family], own.underlay[family]];
  if (end === undefined || underlay === undefined) return undefined;
  const { device, overhead } = VXLAN[family];
  return {
    name: device,
    vni: VNI,
    port: PORT,
    mac: end.mac ?? tunnelMac(own.name, family),
    mtu: underlay.mtu - overhead,
    local: underlay.address.address,
    address: end.address,
    peers: [...peers.values()].flatMap((peer) => peerOf(peer, family) ?? []),
  };
}

function peerOf(peer: ProvenNode, family: Family): VxlanPeer | undefined {
  const node = addressOf(peer, family);
  const end = peer.tunnels[family];
  if (node === undefined || end === undefined) return undefined;
  return { node, address: end.address, mac: end.mac ?? tunnelMac(peer.name, family) };
}

/**
 * The way of packets from this node to another's addresses, by their pool (I§2.7) and by where the two nodes are. An object: another router
 * must carry them; `reason` is absent where the pool intends that.
 */
type Way = "direct" | "tunnel" | { readonly reason?: string };

/** Addresses of a deleted pool, whose modes nobody knows any more: their pods live on. */
function wayWithoutPool(areJoined: boolean, isNear: boolean): Way {
  if (areJoined) return "tunnel";
  return isNear ? "direct" : { reason: "it is in no pool, and not both nodes have a tunnel address" };
}

/**
 * @param own this node's address with its subnet
 * @param peer address of the other node
 */
function wayTo({ vxlanMode, ipipMode, name }: RoutedPool, own: Prefix, peer: Address, mayTunnel: boolean): Way {
  const isNear = contains(own, peer);
  const wantsVxlan = vxlanMode === "Always" || (vxlanMode === "CrossSubnet" && !isNear);
  if (wantsVxlan) return mayTunnel ? "tunnel" : { reason: `pool ${name} wants VXLAN, and --node-routes is direct` };
  const wantsIpip = ipipMode === "Always" || (ipipMode === "CrossSubnet" && !isNear);
  if (wantsIpip) return { reason: `pool ${name} wants IPIP, which BIRD does` };
  // Without encapsulation the network's own routers know the way to other subnets, by BGP or by hand.
  return isNear ? "direct" : {};
}

/**
 * Rejects destinations that no route to another node may have, whoever says that they are there (review, S1): what belongs to this node,
 * what joins the nodes, and what no workload has. It is the last look before the kernel. Pure.
 */
class Shadows {
  readonly #ownBlocks = new DisjointPrefixes<undefined>();
  /** Where this node is reached, and where others are outside of the pools. */
  readonly #addresses = new DisjointPrefixes<undefined>();

  constructor(own: OwnNode, { nodes, blocks, pools }: ClusterView) {
    for (const { cidr, owner } of blocks) if (owner === own.name) this.#ownBlocks.add(cidr, undefined);
    const ofPods = new DisjointPrefixes<undefined>();
    for (const { cidr } of pools) ofPods.add(cidr, undefined);
    for (const family of FAMILIES) {
      const here = own.underlay[family]?.address.address;
      if (here !== undefined) this.#addresses.add(hostPrefix(here), undefined);
      for (const node of nodes) {
        const there = node.name === own.name ? undefined : addressOf(node, family);
        // A node may say that its address is one of another's pods, which must not cost those their route.
        if (there === undefined || ofPods.overlapping(hostPrefix(there)) !== undefined) continue;
        this.#addresses.add(hostPrefix(there), undefined);
      }
    }
  }

  /**
   * @param borrowedFrom the block that the destination is a single address of: it may be this node's own
   * @returns why there must be no route to it, as the rest of a sentence
   */
  of(destination: Prefix, borrowedFrom?: Prefix): string | undefined {
    const special = NEVER_A_WORKLOAD.find((one) => overlaps(one, destination));
    if (special !== undefined) return `has addresses of ${formatPrefix(special)}`;
    const own = this.#ownBlocks.overlapping(destination)?.prefix;
    if (own !== undefined && own !== borrowedFrom) return `overlaps with this node's own ${formatPrefix(own)}`;
    const touched = this.#addresses.overlapping(destination)?.prefix;
    return touched && `has the address ${formatAddress(touched.address)} of a node`;
  }
}
