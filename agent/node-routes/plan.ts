/**
 * Which routes and tunnels join this node with the others: a pure decision from what the cluster says.
 *
 * - A block of another node leads to that node, directly within this node's subnet or through VXLAN, as the block's pool says.
 * - A block of this node leads nowhere: each pod has a route of its own, and what is sent to any other address of the block ends here.
 * - An address that is in use on another node than its block's owner has a route of its own, on every node but the one that uses it.
 */
import type { NodeNetwork, NodeRoute, VxlanPeer, VxlanTunnel } from "../../dataplane/node-network.ts";
import { bitsOf, type Family, formatPrefix, hostPrefix, type Prefix } from "../../lib/addresses/address.ts";
import { poolOf, wayTo } from "./encapsulation.ts";
import { addressOf, type ClusterView, FAMILIES, type OwnNode, type ProvenNode } from "./model.ts";
import { Shadows } from "./proofs/shadows.ts";
import { PORT, tunnelMac, VNI, VXLAN } from "./vxlan-facts.ts";

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

/** @returns why there is none; `undefined` for a node that is not there, which only its leftovers name */
function routeTo(destination: Prefix, node: string, { own, peers, view, mayTunnel }: Context): NodeRoute | string | undefined {
  const { family } = destination.address;
  const peer = peers.get(node);
  if (peer === undefined) return undefined;
  const [here, there] = [own.underlay[family]?.address, addressOf(peer, family)];
  if (here === undefined) return `this node has no IPv${family} address`;
  if (there === undefined) return `node ${node} has no IPv${family} address`;
  const way = wayTo(poolOf(destination, view.pools), here, there, mayTunnel);
  if (way.kind === "none") return way.reason;
  if (way.kind === "direct") return { kind: "direct", destination, gateway: there };
  const gateway = peer.tunnels[family]?.address;
  if (own.tunnels[family] === undefined) return `this node has no IPv${family} tunnel address`;
  if (gateway === undefined) return `node ${node} has no IPv${family} tunnel address`;
  return { kind: "tunnel", destination, gateway, device: VXLAN[family].device };
}

/** A block of a single address is its pod's. */
function blackhole(destination: Prefix): NodeRoute[] {
  return destination.length === bitsOf(destination.address.family) ? [] : [{ kind: "blackhole", destination }];
}

/** What leads to the gateways of IPv6 routes, before those routes (dataplane/node-network.ts). */
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
