/**
 * One VXLAN device with its address and its peers. A device of the same name that is not ours is left alone: it is usually Felix's,
 * and two programs that manage one device would undo each other's work.
 */
import { type Address, formatAddress, formatPrefix, hostPrefix } from "../../lib/addresses/address.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import type { Netlink } from "../netlink/socket.ts";
import { TUNNEL_ALIAS, type VxlanTunnel } from "../node-network.ts";
import { addAddress, listAddresses, removeAddress } from "../rtnetlink/address.ts";
import { type Link, listLinks, setLinkAlias, setLinkMac, setLinkMtu, setLinkUp, UNFINISHED_GROUP } from "../rtnetlink/link.ts";
import { listPeers, type PeerEntry, type PeerTable, removePeer, setPeer } from "../rtnetlink/peer.ts";
import { getVxlan, type VxlanLink, type VxlanSettings, vxlanRequest } from "../rtnetlink/vxlan.ts";
import type { Report } from "./apply-network.ts";
import { deleteHostLink } from "./delete-link.ts";
import { addressesOfHost } from "./host-facts.ts";

/** RT_SCOPE_LINK: link-local addresses, which the kernel makes by itself. */
const SCOPE_LINK = 253;

/** @returns index of the device @throws TortieError `tunnel-failed`; NetlinkError */
export async function applyTunnel(socket: Netlink, tunnel: VxlanTunnel, report: Report): Promise<number> {
  const settings = settingsOf(socket, tunnel);
  const link = (await usableDevice(socket, tunnel, settings, report)) ?? createDevice(socket, tunnel, settings, report);
  const { index } = link;
  if (link.mac !== tunnel.mac) report.try(`MAC of ${tunnel.name} set to ${tunnel.mac}`, () => setLinkMac(socket, index, tunnel.mac));
  if (link.mtu !== tunnel.mtu) report.try(`MTU of ${tunnel.name} set to ${tunnel.mtu}`, () => setLinkMtu(socket, index, tunnel.mtu));
  applyAddress(socket, index, tunnel, report);
  if (!link.isUp) report.try(`${tunnel.name} set up`, () => setLinkUp(socket, index));
  const { peers } = tunnel;
  applyPeers(
    socket,
    index,
    "forwarding",
    tunnel,
    peers.map(({ node, mac }) => ({ address: node, mac })),
    report,
  );
  applyPeers(socket, index, "neighbours", tunnel, peers, report);
  return index;
}

/** Removes the devices that bear our alias and are not wanted. */
export async function removeOtherTunnels(socket: Netlink, wanted: ReadonlySet<string>, report: Report): Promise<void> {
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

/** A process was killed between making the device and writing its alias. */
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

/** Exactly one address besides the link-local one: the kernel would send from a second one too. */
function applyAddress(socket: Netlink, index: number, { name, address }: VxlanTunnel, report: Report): void {
  const wanted = hostPrefix(address);
  const there = listAddresses(socket, index).filter(({ scope }) => scope !== SCOPE_LINK);
  for (const { prefix } of there) {
    if (formatPrefix(prefix) === formatPrefix(wanted)) continue;
    report.try(`address ${formatPrefix(prefix)} of ${name} removed`, () => removeAddress(socket, index, prefix));
  }
  if (there.some(({ prefix }) => formatPrefix(prefix) === formatPrefix(wanted))) return;
  report.try(`address ${formatPrefix(wanted)} of ${name} added`, () => addAddress(socket, index, wanted, true));
}

function applyPeers(
  socket: Netlink,
  index: number,
  table: PeerTable,
  { name, local }: { readonly name: string; readonly local: Address },
  wanted: readonly PeerEntry[],
  report: Report,
): void {
  const present = listPeers(socket, index, table, local.family);
  const there = new Set(present.map(keyOf));
  const wantedKeys = new Set(wanted.map(keyOf));
  const words = (entry: PeerEntry) => `${table === "forwarding" ? "forwarding" : "neighbour"} entry ${keyOf(entry)} of ${name}`;
  for (const entry of present) {
    if (!wantedKeys.has(keyOf(entry))) report.try(`${words(entry)} removed`, () => removePeer(socket, index, table, entry));
  }
  for (const entry of wanted) {
    if (!there.has(keyOf(entry))) report.try(`${words(entry)} added`, () => setPeer(socket, index, table, entry));
  }
}

function keyOf({ address, mac }: PeerEntry): string {
  return `${formatAddress(address)} ${mac}`;
}
