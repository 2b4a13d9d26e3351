/** Makes the kernel hold one attachment (C§4.2), in the order that the kernel needs. Removing the pair undoes everything. */
import { formatPrefix, type Prefix } from "../../lib/addresses/address.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { inNamespace } from "../../lib/system/netns.ts";
import type { Sandbox } from "../../lib/system/sandbox.ts";
import { attachmentAlias } from "../alias.ts";
import type { AppliedLink } from "../dataplane.ts";
import type { DesiredState, HostEnd } from "../desired-state.ts";
import type { HostSockets } from "../netlink/host-sockets.ts";
import { type Netlink, NetlinkError } from "../netlink/socket.ts";
import { addAddress } from "../rtnetlink/address.ts";
import { type Link, setLinkAlias, setLinkLocalSource, setLinkOffload, setLinkUp } from "../rtnetlink/link.ts";
import { addNeighbour } from "../rtnetlink/neighbour.ts";
import { installRoute } from "../rtnetlink/route.ts";
import { type CreatedPair, createPair, type Ends } from "./create-pair.ts";
import { deleteHostLink } from "./delete-link.ts";
import { openSite, type Site } from "./site.ts";
import { readSysctl, writeSysctls } from "./sysctl.ts";

const EEXIST = 17;

/** One end of the pair while it is set up. */
interface End {
  readonly socket: Netlink;
  readonly index: number;
  readonly name: string;
  /** Whether the kernel would run duplicate address detection on it, which takes a second. */
  readonly runsDad: boolean;
}

/** @throws TortieError naming the object that could not be made; nothing of the attachment is there then */
export async function attach(sockets: HostSockets, sandbox: Sandbox, desired: DesiredState): Promise<AppliedLink> {
  sandbox.assertCurrent();
  using site = openSite(sockets, sandbox);
  const created = await createPair(site, desired);
  // The index is never given to another link while the namespace lives, so this cannot meet a stranger.
  const remove = async () => {
    await deleteHostLink(created.host);
  };
  await using undo = new AsyncDisposableStack();
  undo.defer(remove);
  // The alias comes first: it tells whose the link is if this process is killed before it finishes.
  setLinkAlias(site.hostSocket, created.host.index, attachmentAlias(desired.host.owner));
  const warnings = setUp(site, created, desired);
  setAddressesAndRoutes(site, created, desired);
  undo.move();
  return { podMac: created.pod.mac, hostIndex: created.host.index, kind: created.kind, warnings, [Symbol.asyncDispose]: remove };
}

/** Settings, and both ends up. @returns failures that are no reason to stop */
function setUp({ sandbox, hostSocket, podSocket }: Site, { host, pod }: CreatedPair, desired: DesiredState): string[] {
  const warnings = [...inNamespace(sandbox, () => writeSysctls(desired.pod.sysctlsBeforeUp)), ...writeSysctls(desired.host.sysctls)];
  // The pod's IPv6 next hop is this link-local address, whatever generation mode the host has. The kernel derives it when the
  // link goes up, but would then check it for duplicates where the host demands that.
  if (desired.host.addresses.some(isIpv6)) setLinkLocalSource(hostSocket, host.index, runsDad(host.name) ? "none" : "mac");
  warnings.push(...setOffload(hostSocket, host, desired), ...setOffload(podSocket, pod, desired));
  bringUp(hostSocket, host);
  bringUp(podSocket, pod);
  warnings.push(...inNamespace(sandbox, () => writeSysctls(desired.pod.sysctls)));
  return warnings;
}

function setAddressesAndRoutes({ sandbox, hostSocket, podSocket }: Site, created: Ends, { host, pod }: DesiredState): void {
  for (const neighbour of pod.neighbours) addNeighbour(podSocket, created.pod.index, neighbour);
  // Routes before addresses, as Calico does it: what the kernel adds for the addresses themselves then comes after them.
  for (const route of pod.routes) installRoute(podSocket, created.pod.index, pod.name, route);
  const podDad = pod.addresses.some(isIpv6) && inNamespace(sandbox, () => runsDad(pod.name));
  for (const address of pod.addresses) assignAddress({ ...created.pod, socket: podSocket, runsDad: podDad }, address, false);
  completeHostEnd(hostSocket, created.host, host);
}

/**
 * Gives a host end the addresses and routes that it lacks; what it has stays.
 * @throws TortieError naming the object that could not be made
 */
export function completeHostEnd(socket: Netlink, link: Link, { addresses, routes }: HostEnd): void {
  const { name, index } = link;
  const end: End = { socket, index, name, runsDad: addresses.some(isIpv6) && runsDad(name) };
  for (const address of addresses) assignAddress(end, address, true);
  try {
    for (const route of routes) installRoute(socket, index, name, route);
  } catch (error) {
    if (!(error instanceof TortieError)) throw error;
    throw new TortieError(error.word, `error adding host side routes for interface: ${name}, error: ${error.message}`, { cause: error });
  }
}

/** @returns why the kernel does not take them: packets are smaller then, and nothing else is wrong */
function setOffload(socket: Netlink, { index, name }: Link, { device: { groMaxSize = 0, gsoMaxSize = 0 } }: DesiredState): string[] {
  try {
    setLinkOffload(socket, index, { gro: groMaxSize, gso: gsoMaxSize });
    return [];
  } catch (error) {
    if (!(error instanceof NetlinkError)) throw error;
    return [`${name} keeps the kernel's limits of offload, instead of GRO ${groMaxSize} and GSO ${gsoMaxSize}: ${messageOf(error)}`];
  }
}

export function bringUp(socket: Netlink, { index, name }: Link): void {
  try {
    setLinkUp(socket, index);
  } catch (error) {
    throw new TortieError("link-failed", `failed to set ${name} up: ${messageOf(error)}`, { cause: error });
  }
}

/**
 * Duplicate address detection is off when both settings are below 1 (net/ipv6/addrconf.c, addrconf_dad_begin). Only where it is on are
 * addresses marked to skip it: the mark shows in `ip addr`, and addresses should look the same everywhere.
 */
function runsDad(name: string): boolean {
  return ["all", name].some((scope) => Number(readSysctl(`net/ipv6/conf/${scope}/accept_dad`) ?? "0") > 0);
}

/** @param isThereFine whether the kernel may have made this address by itself: a link-local one, when the link went up */
function assignAddress(end: End, prefix: Prefix, isThereFine: boolean): void {
  try {
    addAddress(end.socket, end.index, prefix, end.runsDad && isIpv6(prefix));
  } catch (error) {
    if (error instanceof NetlinkError && error.errno === EEXIST && isThereFine) return;
    throw new TortieError("address-failed", `failed to add IP addr ${formatPrefix(prefix)} to ${end.name}: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

function isIpv6({ address }: Prefix): boolean {
  return address.family === 6;
}
