/** A node with a network between nodes as tests of it want it, for each family: a tunnel with two peers, and a route of each kind. */
import { type NetworkReport, NO_NODE_STATE, type NodeNetwork, type VxlanPeer, type VxlanTunnel } from "../../dataplane/dataplane.ts";
import type { Family } from "../../lib/addresses/address.ts";
import { address, prefix } from "./addresses.ts";
import { applyNode } from "./dataplane-probe.ts";
import { Node } from "./node.ts";

export const OWN_MAC = "66:00:00:00:00:01";

export const FAMILIES = {
  4: {
    device: "vxlan.calico",
    mtu: 1450,
    local: "172.20.1.1",
    address: "10.9.0.0",
    bits: 32,
    peers: [
      { node: "172.20.2.2", address: "10.9.2.0", mac: "66:00:00:00:00:02" },
      { node: "172.20.3.3", address: "10.9.3.0", mac: "66:00:00:00:00:03" },
    ],
    block: "10.9.2.0/26",
    neighbour: "172.20.1.9",
    direct: "10.9.1.0/26",
    own: "10.9.0.0/26",
  },
  6: {
    device: "vxlan-v6.calico",
    mtu: 1430,
    local: "fd20:1::1",
    address: "fd09::",
    bits: 128,
    peers: [
      { node: "fd20:2::2", address: "fd09:2::", mac: "66:00:00:00:00:02" },
      { node: "fd20:3::3", address: "fd09:3::", mac: "66:00:00:00:00:03" },
    ],
    block: "fd09:2::/122",
    neighbour: "fd20:1::9",
    direct: "fd09:1::/122",
    own: "fd09::/122",
  },
} as const;

export async function host(): Promise<Node> {
  const node = await Node.create();
  await node.ip("link", "add", "eth0", "mtu", "1500", "type", "veth", "peer", "name", "wire");
  for (const name of ["eth0", "wire"]) await node.ip("link", "set", name, "up");
  await node.ip("address", "add", "172.20.1.1/24", "dev", "eth0");
  await node.ip("address", "add", "fd20:1::1/64", "dev", "eth0", "nodad");
  return node;
}

export function peersOf(family: Family): readonly VxlanPeer[] {
  return FAMILIES[family].peers.map(({ node, address: inside, mac }) => ({ node: address(node), address: address(inside), mac }));
}

export function tunnelOf(family: Family, change: Partial<VxlanTunnel> = {}): VxlanTunnel {
  const { device: name, mtu, local, address: inside } = FAMILIES[family];
  return {
    name,
    vni: 4096,
    port: 4789,
    mac: OWN_MAC,
    mtu,
    local: address(local),
    address: address(inside),
    peers: peersOf(family),
    ...change,
  };
}

export function networkOf(family: Family, tunnel: VxlanTunnel = tunnelOf(family)): NodeNetwork {
  const { device, peers, block, direct, neighbour, own } = FAMILIES[family];
  return {
    tunnels: [tunnel],
    routes: [
      { kind: "tunnel", destination: prefix(`${peers[0].address}/${FAMILIES[family].bits}`), device },
      { kind: "tunnel", destination: prefix(block), gateway: address(peers[0].address), device },
      { kind: "direct", destination: prefix(direct), gateway: address(neighbour) },
      { kind: "blackhole", destination: prefix(own) },
    ],
  };
}

export async function apply(node: Node, network: NodeNetwork): Promise<NetworkReport> {
  const { value, error } = await applyNode(node, { ...NO_NODE_STATE, network });
  if (value === undefined) throw new Error(error?.message);
  return value;
}

/** "10.9.2.0/26 via 10.9.2.0 dev vxlan.calico onlink": our routes, in the order of their texts. */
export async function routes(node: Node, family: Family): Promise<string[]> {
  const found = await node.ip("-j", `-${family}`, "route", "show", "proto", "84");
  return found
    .map(({ type, dst, gateway, dev, flags }) =>
      type === "blackhole"
        ? `blackhole ${dst}`
        : [dst, ...(gateway === undefined ? [] : ["via", gateway]), "dev", dev, ...(flags as string[])].join(" "),
    )
    .sort();
}

export const wantedRoutes = (family: Family): string[] => {
  const { peers, block, direct, neighbour, own, device } = FAMILIES[family];
  const gateway = peers[0].address;
  const tunnelled = [`${gateway} dev ${device}`, `${block} via ${gateway} dev ${device} onlink`];
  return [...tunnelled, `${direct} via ${neighbour} dev eth0`, `blackhole ${own}`].sort();
};
