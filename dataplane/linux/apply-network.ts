/**
 * Makes the kernel hold what joins this node's pods with those of others. Tunnels, their addresses and peers come before the routes through
 * them, and routes that are not wanted go before those do, so that at no moment a route leads into nothing.
 *
 * A step that fails does not stop the others: one peer with a bad address must not cost the others their traffic.
 */

import { type Family, formatAddress, formatPrefix, hostPrefix, isSameAddress, parsePrefix } from "../../lib/addresses/address.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { type NetworkReport, type NodeNetwork, type NodeRoute, TUNNEL_ALIAS, type VxlanTunnel } from "../dataplane.ts";
import type { HostSockets } from "../netlink/host-sockets.ts";
import type { Netlink } from "../netlink/socket.ts";
import { addAddress, listAddresses, removeAddress } from "../rtnetlink/address.ts";
import { type Link, listLinks, setLinkAlias, setLinkMac, setLinkMtu, setLinkUp, UNFINISHED_GROUP } from "../rtnetlink/link.ts";
import { listPeers, type PeerEntry, type PeerTable, removePeer, setPeer } from "../rtnetlink/neighbour.ts";
import {
  addNodeRoute,
  deleteNodeRoute,
  getVxlan,
  listNodeRoutes,
  type NodeKernelRoute,
  replaceNodeRoute,
  type VxlanLink,
  type VxlanSettings,
  vxlanRequest,
} from "../rtnetlink/node-network.ts";
import { deleteHostLink } from "./deletions.ts";
import { findForeignRoutes } from "./foreign-routes.ts";
import { addressesOfHost } from "./host-facts.ts";

export async function applyNetwork({ route }: HostSockets, network: NodeNetwork): Promise<NetworkReport> {
  const report = new Report();
  const devices = new Map<string, number>();
  const families = FAMILIES.filter((family) => network.held?.includes(family) !== true);
  const tunnels = network.tunnels.filter(({ local }) => families.includes(local.family));
  for (const tunnel of tunnels) {
    try {
      devices.set(tunnel.name, await applyTunnel(route, tunnel, report));
    } catch (error) {
      report.failed.push(`tunnel ${tunnel.name}: ${messageOf(error)}`);
    }
  }
  applyNodeRoutes(route, network.routes, families, devices, report);
  for (const tunnel of tunnels) {
    const index = devices.get(tunnel.name);
    if (index !== undefined) removeOldEnds(route, index, tunnel, report);
  }
  await removeOtherTunnels(route, new Set(network.tunnels.map(({ name }) => name)), report);
  const { changed, failed } = report;
  const routes = FAMILIES.reduce((sum, family) => sum + listNodeRoutes(route, family).length, 0);
  return { changed, failed, routes, foreign: findForeignRoutes(route, network.routes, families) };
}

const FAMILIES: readonly Family[] = [4, 6];

/** Collects what the steps have done so far. */
class Report {
  readonly changed: string[] = [];
  readonly failed: string[] = [];

  /** Runs one step and notes its failure. @returns whether it succeeded */
  try(what: string, step: () => void): boolean {
    try {
      step();
      this.changed.push(what);
      return true;
    } catch (error) {
      this.failed.push(`${what}: ${messageOf(error)}`);
      return false;
    }
  }
}

/** Indexes of the tunnel devices that are there, by name. */
type Devices = ReadonlyMap<string, number>;

/**
 * Compares what the kernel has of our routes with what it shall have. Routes of others are never looked at.
 *
 * A route that goes another way than it should is replaced in one step: no packet meets a moment without it. What is not wanted goes
 * last, since a route that is about to change may lead through it.
 */
function applyNodeRoutes(
  socket: Netlink,
  routes: readonly NodeRoute[],
  families: readonly Family[],
  devices: Devices,
  report: Report,
): void {
  const concerned = routes.filter(({ destination }) => families.includes(destination.address.family));
  const missing = new Map(wantedRoutes(concerned, devices).map((route) => [keyOf(route), route]));
  const others: NodeKernelRoute[] = [];
  for (const found of families.flatMap((family) => listNodeRoutes(socket, family))) {
    const wanted = missing.get(keyOf(found));
    if (wanted !== undefined && isSame(found, wanted)) missing.delete(keyOf(found));
    else others.push(found);
  }
  const outdated = new Map(others.map((route) => [keyOf(route), route]));
  for (const [key, route] of missing) {
    const before = outdated.get(key);
    if (before === undefined) report.try(`route ${describe(route)} added`, () => addNodeRoute(socket, route));
    else if (report.try(`route ${describe(before)} replaced by ${describe(route)}`, () => replaceNodeRoute(socket, route)))
      others.splice(others.indexOf(before), 1);
  }
  for (const route of others) report.try(`route ${describe(route)} removed`, () => deleteNodeRoute(socket, route));
}

/** Leaves a route out whose tunnel could not be made: the failure of the tunnel says why. */
function wantedRoutes(routes: readonly NodeRoute[], devices: Devices): readonly NodeKernelRoute[] {
  return routes.flatMap((route): NodeKernelRoute[] => {
    const { destination } = route;
    if (route.kind === "blackhole") return [{ destination, isOnLink: false }];
    if (route.kind === "direct") return [{ destination, gateway: route.gateway, isOnLink: false }];
    const { gateway } = route;
    const index = devices.get(route.device);
    if (index === undefined) return [];
    return [gateway === undefined ? { destination, index, isOnLink: false } : { destination, gateway, index, isOnLink: true }];
  });
}

/** Compares two routes; the kernel has chosen the link of one that names only a gateway. */
function isSame(found: NodeKernelRoute, wanted: NodeKernelRoute): boolean {
  if (!isSameAddress(found.gateway, wanted.gateway) || found.isOnLink !== wanted.isOnLink) return false;
  return wanted.index === found.index || (wanted.index === undefined && wanted.gateway !== undefined);
}

/** Makes a key that is cheaper than the text of a prefix: a large cluster has thousands. */
function keyOf({ destination: { address, length } }: NodeKernelRoute): string {
  return `${address.family} ${address.value} ${length}`;
}

function describe({ destination, gateway, index, isOnLink }: NodeKernelRoute): string {
  const via = gateway === undefined ? "" : ` via ${formatAddress(gateway)}`;
  const way = gateway === undefined && index === undefined ? " to nowhere" : via;
  return `${formatPrefix(destination)}${way}${isOnLink ? " through the tunnel" : ""}`;
}

/** Is RT_SCOPE_LINK: link-local addresses, which the kernel makes by itself. */
const SCOPE_LINK = 253;

/**
 * Makes one VXLAN device with its address and its peers. A device of the same name that is not ours is left alone: it is usually Felix's,
 * and two programs that manage one device would undo each other's work.
 *
 * @returns index of the device @throws TortieError `tunnel-failed`; NetlinkError
 */
async function applyTunnel(socket: Netlink, tunnel: VxlanTunnel, report: Report): Promise<number> {
  const settings = settingsOf(socket, tunnel);
  const link = (await usableDevice(socket, tunnel, settings, report)) ?? createDevice(socket, tunnel, settings, report);
  const { index } = link;
  if (link.mac !== tunnel.mac) report.try(`MAC of ${tunnel.name} set to ${tunnel.mac}`, () => setLinkMac(socket, index, tunnel.mac));
  if (link.mtu !== tunnel.mtu) report.try(`MTU of ${tunnel.name} set to ${tunnel.mtu}`, () => setLinkMtu(socket, index, tunnel.mtu));
  const { name, address, peers } = tunnel;
  if (!addressesOf(socket, index).includes(formatPrefix(hostPrefix(address)))) {
    report.try(`address ${formatPrefix(hostPrefix(address))} of ${name} added`, () => addAddress(socket, index, hostPrefix(address), true));
  }
  if (!link.isUp) report.try(`${name} set up`, () => setLinkUp(socket, index));
  for (const table of PEER_TABLES) {
    const there = new Set(listPeers(socket, index, table, address.family).map(entryKeyOf));
    for (const entry of entriesOf(peers, table)) {
      if (!there.has(entryKeyOf(entry))) report.try(`${words(table, entry, name)} added`, () => setPeer(socket, index, table, entry));
    }
  }
  return index;
}

/** Keeps exactly one address besides the link-local one, from which the kernel would send too, and no peers but these. */
function removeOldEnds(socket: Netlink, index: number, { name, address, peers }: VxlanTunnel, report: Report): void {
  const wanted = formatPrefix(hostPrefix(address));
  for (const old of addressesOf(socket, index)) {
    const prefix = old === wanted ? undefined : parsePrefix(old);
    if (prefix !== undefined) report.try(`address ${old} of ${name} removed`, () => removeAddress(socket, index, prefix));
  }
  for (const table of PEER_TABLES) {
    const keys = new Set(entriesOf(peers, table).map(entryKeyOf));
    for (const entry of listPeers(socket, index, table, address.family)) {
      if (!keys.has(entryKeyOf(entry))) report.try(`${words(table, entry, name)} removed`, () => removePeer(socket, index, table, entry));
    }
  }
}

/** Removes the devices that bear our alias and are not wanted. */
async function removeOtherTunnels(socket: Netlink, wanted: ReadonlySet<string>, report: Report): Promise<void> {
  for (const link of listLinks(socket)) {
    if (link.alias !== TUNNEL_ALIAS || wanted.has(link.name)) continue;
    await deleteHostLink(link);
    report.changed.push(`${link.name} removed`);
  }
}

function settingsOf(socket: Netlink, { name, vni, port, local }: VxlanTunnel): VxlanSettings {
  const wanted = formatAddress(local);
  const carrier = addressesOfHost(socket).find(({ address }) => formatAddress(address) === wanted);
  if (carrier === undefined) throw new TortieError("tunnel-failed", `no interface of this host has ${wanted}, which ${name} sends from`);
  return { vni, port, local, parent: carrier.index };
}

/** Ours, and made with these settings; one of ours with others is removed. @throws TortieError `tunnel-failed` for one that is not ours */
async function usableDevice(socket: Netlink, tunnel: VxlanTunnel, settings: VxlanSettings, report: Report) {
  const link = getVxlan(socket, tunnel.name);
  if (link === undefined) return undefined;
  if (link.alias !== TUNNEL_ALIAS && !isUnfinished(link)) {
    throw new TortieError("tunnel-failed", `there is an interface ${tunnel.name} that another program made; it is left alone`);
  }
  if (link.alias === TUNNEL_ALIAS && hasSettings(link, settings)) return link;
  await deleteHostLink(link);
  report.changed.push(`${tunnel.name} with other settings removed`);
  return undefined;
}

/** Knows a device whose process was killed between making the device and writing its alias. */
function isUnfinished({ group, alias, isUp, kind }: Link): boolean {
  return group === UNFINISHED_GROUP && alias === "" && !isUp && kind === "vxlan";
}

function hasSettings({ settings: found }: VxlanLink, { vni, port, parent, local }: VxlanSettings): boolean {
  if (found?.local === undefined || found.learns) return false;
  return found.vni === vni && found.port === port && found.parent === parent && formatAddress(found.local) === formatAddress(local);
}

function createDevice(socket: Netlink, { name, mac, mtu }: VxlanTunnel, settings: VxlanSettings, report: Report): VxlanLink {
  socket.request(vxlanRequest(name, mac, mtu, settings));
  const link = getVxlan(socket, name);
  if (link === undefined) throw new TortieError("tunnel-failed", `interface ${name} was removed by somebody else while it was set up`);
  setLinkAlias(socket, link.index, TUNNEL_ALIAS);
  report.changed.push(`${name} made`);
  return link;
}

/** Addresses of a tunnel device as texts, without the link-local one. */
function addressesOf(socket: Netlink, index: number): readonly string[] {
  return listAddresses(socket, index).flatMap(({ prefix, scope }) => (scope === SCOPE_LINK ? [] : [formatPrefix(prefix)]));
}

const PEER_TABLES: readonly PeerTable[] = ["forwarding", "neighbours"];

function entriesOf(peers: VxlanTunnel["peers"], table: PeerTable): readonly PeerEntry[] {
  return table === "neighbours" ? peers : peers.map(({ node, mac }) => ({ address: node, mac }));
}

function words(table: PeerTable, entry: PeerEntry, name: string): string {
  return `${table === "forwarding" ? "forwarding" : "neighbour"} entry ${entryKeyOf(entry)} of ${name}`;
}

function entryKeyOf({ address, mac }: PeerEntry): string {
  return `${formatAddress(address)} ${mac}`;
}
