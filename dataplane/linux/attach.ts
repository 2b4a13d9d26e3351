/** Makes the kernel hold one attachment (C§4.2), in the order that the kernel needs. Removing the pair undoes everything. */
import { formatPrefix, type Prefix } from "../../lib/addresses/address.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { errnoText } from "../../lib/system/errno.ts";
import { inNamespace } from "../../lib/system/netns.ts";
import type { Sandbox } from "../../lib/system/sandbox.ts";
import { attachmentAlias } from "../alias.ts";
import type { AppliedLink } from "../dataplane.ts";
import type { DesiredState, HostEnd } from "../desired-state.ts";
import type { HostSockets } from "../netlink/host-sockets.ts";
import { NetlinkError } from "../netlink/message.ts";
import type { Netlink } from "../netlink/socket.ts";
import { addAddress } from "../rtnetlink/address.ts";
import {
  getLink,
  type Link,
  type LinkKind,
  type Pair,
  pairRequest,
  setLinkAlias,
  setLinkLocalSource,
  setLinkMac,
  setLinkOffload,
  setLinkUp,
} from "../rtnetlink/link.ts";
import { addNeighbour } from "../rtnetlink/neighbour.ts";
import { installRoute } from "../rtnetlink/route.ts";
import { deleteHostLink } from "./deletions.ts";
import { mayReplace, openSite, type Site } from "./ends.ts";
import { readSysctl, writeSysctls } from "./sysctl.ts";

const EEXIST = 17;

/** Describes one end of the pair while it is set up. */
interface End {
  readonly socket: Netlink;
  readonly index: number;
  readonly name: string;
  /** Tells whether the kernel would run duplicate address detection on it, which takes a second. */
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

/** Writes the settings and sets both ends up. @returns failures that need not stop the ADD */
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
 * Tells whether duplicate addresses are detected. Detection is off when both settings are below 1 (net/ipv6/addrconf.c,
 * addrconf_dad_begin). Only where it is on are addresses marked to skip it: the mark shows in `ip addr`, and addresses should look the same
 * everywhere.
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

const EINVAL = 22;
const EOPNOTSUPP = 95;
const EADDRNOTAVAIL = 99;
/** Has ETH_MIN_MTU and ETH_MAX_MTU (include/uapi/linux/if_ether.h), which veth and netkit take over. */
const MTU = { min: 68, max: 65535 };
/** Is IPV6_MIN_MTU (include/uapi/linux/ipv6.h): an interface below it has no IPv6 at all. */
const MTU_MIN_IPV6 = 1280;
/** Limits queues as net/core/rtnetlink.c, rtnl_create_link, does. */
const QUEUES_MAX = 4096;
const MAC_SETTLE = { tries: 50, delayMs: 100 };

interface Ends {
  readonly host: Link;
  readonly pod: Link;
}

interface CreatedPair extends Ends {
  readonly kind: LinkKind;
}

/**
 * Creates both ends, down, with names, MACs, MTU and queues (C§4.2 steps 1 to 4, C§4.5). A host link in the way is replaced if it is this
 * workload's.
 * @throws TortieError `interface-exists`, `mtu-invalid`, `queues-invalid`, `mac-invalid`, `link-failed`; nothing of the pair is there then
 */
async function createPair(site: Site, desired: DesiredState): Promise<CreatedPair> {
  const { hostSocket, podSocket } = site;
  checkDevice(desired);
  const kind = await createFresh(site, desired);
  const host = presentLink(hostSocket, desired.host.name);
  try {
    return {
      kind,
      host: await withMac(hostSocket, host, desired.host.mac),
      pod: presentLink(podSocket, desired.pod.name),
    };
  } catch (error) {
    await deleteHostLink(host);
    throw error;
  }
}

/** Refuses what the kernel would refuse with no more than "invalid argument" (recordings `mtu-67`, `mtu-70000`, `num-queues-5000`, `mtu-1279`). */
function checkDevice({ device, pod }: DesiredState): void {
  const { mtu, queues } = device;
  if (mtu !== 0 && (!Number.isInteger(mtu) || mtu < MTU.min || mtu > MTU.max)) {
    throw new TortieError("mtu-invalid", `invalid argument: mtu ${mtu} is out of range, ${MTU.min} to ${MTU.max}`);
  }
  if (mtu !== 0 && mtu < MTU_MIN_IPV6 && pod.addresses.some(({ address }) => address.family === 6)) {
    throw new TortieError("mtu-invalid", `mtu ${mtu} is too small for IPv6 on ${pod.name}, which needs at least ${MTU_MIN_IPV6}`);
  }
  if (!Number.isInteger(queues) || queues < 1 || queues > QUEUES_MAX) {
    throw new TortieError("queues-invalid", `invalid argument: ${queues} queues are out of range, 1 to ${QUEUES_MAX}`);
  }
}

async function createFresh({ hostSocket, podSocket, sandbox }: Site, desired: DesiredState): Promise<LinkKind> {
  const { device, host, pod } = desired;
  const pair = { mtu: device.mtu, queues: device.queues, host, pod: { ...pod, namespaceFd: sandbox.fd } };
  try {
    return createOfKind(hostSocket, device.kind, pair);
  } catch (error) {
    if (!(error instanceof NetlinkError) || error.errno !== EEXIST) throw refusal(error, desired);
  }
  await replaceHostLink(hostSocket, desired);
  try {
    return createOfKind(hostSocket, device.kind, pair);
  } catch (error) {
    if (error instanceof NetlinkError && error.errno === EEXIST && getLink(podSocket, { name: pod.name }) !== undefined) {
      throw new TortieError("interface-exists", `file exists: sandbox ${sandbox.path} already has an interface ${pod.name}`, {
        cause: error,
      });
    }
    throw refusal(error, desired);
  }
}

/** Removes a host link of the same name unless another attachment owns it: two pods can hash to one interface name. */
async function replaceHostLink(socket: Netlink, { host }: DesiredState): Promise<void> {
  const link = getLink(socket, { name: host.name });
  if (link === undefined) return;
  if (!mayReplace(link.alias, host)) {
    const wanted = attachmentAlias(host.owner);
    throw new TortieError(
      "interface-exists",
      `file exists: host interface ${host.name} belongs to another attachment, "${link.alias}", and is wanted for "${wanted}"`,
    );
  }
  await deleteHostLink(link);
}

/** Makes a veth where a kernel without netkit answers EOPNOTSUPP, and passes any other refusal on (C§4.5). */
function createOfKind(host: Netlink, kind: LinkKind, pair: Omit<Pair, "kind">): LinkKind {
  try {
    host.request(pairRequest({ ...pair, kind }));
    return kind;
  } catch (error) {
    if (kind !== "netkit" || !(error instanceof NetlinkError) || error.errno !== EOPNOTSUPP) throw error;
    return createOfKind(host, "veth", pair);
  }
}

function refusal(error: unknown, { device, host, pod }: DesiredState): unknown {
  if (!(error instanceof NetlinkError)) return error;
  const what = `${device.kind} ${host.name} with peer ${pod.name}`;
  if (error.errno === EADDRNOTAVAIL && pod.mac !== undefined) {
    return new TortieError("mac-invalid", `failed to set MAC address ${pod.mac} on ${pod.name}: ${messageOf(error)}`, { cause: error });
  }
  const values = error.errno === EINVAL ? ` (mtu ${device.mtu}, ${device.queues} queues)` : "";
  // The bare words of the kernel first, as Calico gives them.
  return new TortieError("link-failed", `${errnoText(error.errno)}: failed to create ${what}${values}: ${messageOf(error)}`, {
    cause: error,
  });
}

function presentLink(socket: Netlink, name: string): Link {
  const link = getLink(socket, { name });
  if (link === undefined) throw new TortieError("link-failed", `interface ${name} was removed by somebody else while it was set up`);
  return link;
}

/** Sets the MAC again until it stays: another program, such as udev, may change that of a new link (C§12.1). */
async function withMac(socket: Netlink, link: Link, mac: string): Promise<Link> {
  let current = link;
  for (let tries = 0; current.mac !== mac; tries++) {
    if (tries === MAC_SETTLE.tries) {
      throw new TortieError("link-failed", `interface ${link.name} does not keep its MAC address ${mac}: it has ${current.mac}`);
    }
    if (tries > 0) await new Promise((resolve) => setTimeout(resolve, MAC_SETTLE.delayMs));
    setLinkMac(socket, link.index, mac);
    current = presentLink(socket, link.name);
  }
  return current;
}
