/**
 * Compares the kernel with a desired state; changes nothing.
 *
 * It compares what a container needs to be reached: links, addresses, and the way to its gateway, whatever it consists of. It ignores
 * what an administrator, a chained plugin or a newer configuration may legitimately change (sysctls, queues). MAC and MTU are compared
 * with the runtime's result, which every plugin of the chain has seen (CNI specification, CHECK).
 */
import { type Family, formatAddress, formatPrefix, type Prefix } from "../../lib/addresses/address.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import type { Sandbox } from "../../lib/system/sandbox.ts";
import { attachmentAlias, namesAttachment } from "../alias.ts";
import type { Mending, RecordedLink, RecordedPair } from "../dataplane.ts";
import type { DesiredState, Difference, HostEnd, PodEnd, Route } from "../desired-state.ts";
import type { HostSockets } from "../netlink/host-sockets.ts";
import { DumpTooLargeError } from "../netlink/message.ts";
import type { Netlink } from "../netlink/socket.ts";
import { findAddress, IFA_F_DADFAILED, IFA_F_TENTATIVE, listAddresses } from "../rtnetlink/address.ts";
import { getLink, type Link, setLinkAlias, setLinkMac } from "../rtnetlink/link.ts";
import { addNeighbour } from "../rtnetlink/neighbour.ts";
import { isSameRoute, isToSameDestination, type KernelRoute, listRoutes, lookUpRoute } from "../rtnetlink/route.ts";
import { bringUp, completeHostEnd } from "./attach.ts";
import { pause } from "./deletions.ts";
import { isDeviceKind, openSite, type Site } from "./ends.ts";
import { isRoutedByRule, lackingNeighbours } from "./gateway.ts";
import { differingSysctls, readSysctl, writeSysctls } from "./sysctl.ts";

type Side = Difference["side"];
type Field = readonly [object: string, wanted: string, found: string];

/**
 * Limits what a container may put into its own sandbox before a look at it ends, over all lists. Reading 4,096 entries costs some ten
 * milliseconds, during which this process serves nobody else.
 */
const MOST_IN_SANDBOX = 4096;

/** Counts how much of its lists a look may still read; `undefined` on the host. */
type Allowance = { left: number } | undefined;

/** @throws TortieError `sandbox-too-large` when the container has more routes and addresses than are read */
export function inspect(sockets: HostSockets, sandbox: Sandbox, desired: DesiredState, recorded: RecordedLink = {}): Difference[] {
  using site = openSite(sockets, sandbox);
  return [...inspectHostEnd(site.hostSocket, desired), ...inspectPodEnd(site, desired, recorded)];
}

function inspectPodEnd(site: Site, desired: DesiredState, recorded: RecordedLink): Difference[] {
  const { pod } = desired;
  const own = (link: Link) => [...recordedFields(link, recorded), ...neighbourFields(site, link, desired)];
  try {
    return differences("pod", linkFields(site.podSocket, pod, own, { left: MOST_IN_SANDBOX }));
  } catch (error) {
    if (!(error instanceof DumpTooLargeError)) throw error;
    throw new TortieError(
      "sandbox-too-large",
      `cannot compare ${pod.name}: the container has more than ${MOST_IN_SANDBOX} addresses and routes, or changes them`,
      { cause: error },
    );
  }
}

/** Inspects the host end alone: its link, owner, addresses and routes. */
function inspectHostEnd(socket: Netlink, desired: DesiredState): Difference[] {
  return differences(
    "host",
    linkFields(socket, desired.host, (link) => hostFields(link, desired)),
  );
}

function differences(side: Side, fields: readonly Field[]): Difference[] {
  return fields.filter(([, wanted, found]) => wanted !== found).map(([object, wanted, found]) => ({ side, object, wanted, found }));
}

function linkFields(socket: Netlink, end: HostEnd | PodEnd, own: (link: Link) => Field[], allowance?: Allowance): Field[] {
  const object = `link ${end.name}`;
  const link = getLink(socket, end);
  if (link === undefined) return [[object, "present", "missing"]];
  return [
    [`${object} kind`, "veth or netkit", isDeviceKind(link.kind) ? "veth or netkit" : link.kind],
    [`${object} state`, "up", link.isUp ? "up" : "down"],
    ...own(link),
    ...addressFields(socket, link, end.addresses, allowance),
    ...routeFields(socket, link, end, allowance),
  ];
}

/** Compares the link itself. One without an owner is of Calico's plugin. The MAC matters where the pod was told it once and for all. */
function hostFields({ name, alias, mac }: Link, { host, pod }: DesiredState): Field[] {
  const wanted = attachmentAlias(host.owner);
  return [
    [`link ${name} alias`, wanted, alias === "" || namesAttachment(alias, host.owner) ? wanted : alias],
    ...pod.neighbours.map((neighbour): Field => [`link ${name} MAC`, neighbour.mac, mac]),
  ];
}

function recordedFields(link: Link, { mac, mtu }: RecordedLink): Field[] {
  return [
    ...(mac === undefined ? [] : [[`link ${link.name} MAC`, mac.toLowerCase(), link.mac] as const]),
    ...(mtu === undefined ? [] : [[`link ${link.name} MTU`, String(mtu), String(link.mtu)] as const]),
  ];
}

function addressFields(socket: Netlink, link: Link, addresses: readonly Prefix[], allowance: Allowance): Field[] {
  if (addresses.length === 0) return [];
  const there = within(allowance, (most) => listAddresses(socket, link.index, most));
  return addresses.map((wanted) => {
    const found = findAddress(there, wanted);
    const object = `address ${formatPrefix(wanted)} of ${link.name}`;
    if (found === undefined) return [object, "usable", "missing"];
    if ((found.flags & IFA_F_DADFAILED) !== 0) return [object, "usable", "duplicate of another host's"];
    return [object, "usable", (found.flags & IFA_F_TENTATIVE) !== 0 ? TENTATIVE : "usable"];
  });
}

function neighbourFields({ podSocket, hostSocket }: Site, link: Link, { pod, host }: DesiredState): Field[] {
  return lackingNeighbours(podSocket, link, hostSocket, host.name, pod.neighbours).map(({ neighbour: { address, mac }, found }) => [
    `neighbour ${formatAddress(address)} of ${link.name}`,
    mac,
    found ?? "missing",
  ]);
}

/**
 * Asks for the routes of the link, and for another one to the same destination only where one is missing. The host's table, which has as
 * many routes as the node has pods, is never read; that of a sandbox once a family.
 */
function routeFields(socket: Netlink, link: Link, { routes, addresses }: HostEnd | PodEnd, allowance: Allowance): Field[] {
  const families = [...new Set(routes.map((route) => route.destination.address.family))];
  const own = families.flatMap((family) => within(allowance, (most) => listRoutes(socket, family, link.index, most)));
  const tables = new Map<Family, readonly KernelRoute[]>();
  const tableOf = (family: Family) =>
    tables.getOrInsertComputed(family, () => within(allowance, (most) => listRoutes(socket, family, undefined, most)));
  const otherTo = (route: Route) => {
    const hit = lookUpRoute(socket, route);
    if (hit !== undefined || allowance === undefined) return hit;
    return tableOf(route.destination.address.family).find((found) => isToSameDestination(found, route));
  };
  return routes.map((route) => {
    const object = `route ${formatPrefix(route.destination)}`;
    const wanted = routeText(link.name, route);
    if (own.some((found) => isSameRoute(found, route, link.index))) return [object, wanted, wanted];
    if (allowance !== undefined && isRoutedByRule(socket, link, route, addresses)) return [object, wanted, wanted];
    const other = otherTo(route);
    if (other === undefined) return [object, wanted, "missing"];
    const name = (other.index === 0 ? undefined : getLink(socket, { index: other.index })?.name) ?? "none";
    return [object, wanted, routeText(name, other)];
  });
}

function within<T>(allowance: Allowance, read: (most?: number) => T[]): T[] {
  if (allowance === undefined) return read();
  const found = read(allowance.left);
  allowance.left -= found.length;
  return found;
}

function routeText(name: string, { gateway, scope }: { readonly gateway?: Route["gateway"] | undefined; readonly scope: string }): string {
  return `${gateway === undefined ? "" : `via ${formatAddress(gateway)} `}dev ${name} scope ${scope}`;
}

/** Is what a comparison finds for an address that the kernel has not finished preparing. */
export const TENTATIVE = "tentative";
/**
 * Limits the wait for addresses that the kernel is still preparing. A new IPv6 address is tentative for milliseconds even where
 * duplicate detection is off, and for one to two seconds where it is on (net/ipv6/addrconf.c, addrconf_dad_work). It is not broken.
 * Two seconds of detection with the default settings, and some room.
 */
const SETTLING_LIMIT_MS = 3000;

/** Repeats a comparison while a tentative address is all it finds. @returns what the last comparison found */
export async function settled(compare: () => Difference[]): Promise<Difference[]> {
  const end = performance.now() + SETTLING_LIMIT_MS;
  for (let looks = 0; ; looks++) {
    const found = compare();
    const isSettling = found.length > 0 && found.every((difference) => difference.found === TENTATIVE);
    if (!isSettling || performance.now() >= end) return found;
    await pause(looks);
  }
}

/**
 * Makes the host end of an attachment whole again where something was taken from it: by hand, by another daemon, by a flushed table.
 *
 * Only what differs is touched, and only on a host end that is provably this attachment's: by its alias, or by its index where the
 * alias was cleared (design, invariants 7, 11 and 16). What a container, a chained plugin or a VPN client did at the pod end is its own
 * business, but for the neighbour that stands for the gateway where the host would not answer for it: the kernel itself flushes that.
 */
export function drift(sockets: HostSockets, sandbox: Sandbox, recorded: RecordedPair): Difference[] {
  using site = openSite(sockets, sandbox);
  return driftAt(site, recorded);
}

/** @returns what differed and does no longer, and what still does; an address that the kernel is still preparing does not differ */
export function mend(sockets: HostSockets, sandbox: Sandbox, recorded: RecordedPair): Mending {
  using site = openSite(sockets, sandbox);
  const found = broken(driftAt(site, recorded));
  const link = found.length === 0 ? undefined : provenHostEnd(site, recorded);
  if (link === undefined) return { mended: [], left: found };
  const { host } = recorded.desired;
  if (link.alias === "") setLinkAlias(site.hostSocket, link.index, attachmentAlias(host.owner));
  if (link.mac !== host.mac) setLinkMac(site.hostSocket, link.index, host.mac);
  writeSysctls(differingSysctls(host.sysctls));
  bringUp(site.hostSocket, link);
  completeHostEnd(site.hostSocket, link, host);
  completeNeighbours(site, link, recorded.desired);
  const left = broken(driftAt(site, recorded));
  return { mended: found.filter((one) => !left.some(({ object }) => object === one.object)), left };
}

/** Restores the neighbours of the pod end, if it is the other end of this very link. */
function completeNeighbours({ podSocket, hostSocket }: Site, { peer, name }: Link, { pod }: DesiredState): void {
  const link = getLink(podSocket, pod);
  if (link === undefined || link.index !== peer?.index) return;
  for (const { neighbour, found } of lackingNeighbours(podSocket, link, hostSocket, name, pod.neighbours)) {
    if (found === undefined) addNeighbour(podSocket, link.index, neighbour);
  }
}

function broken(differences: readonly Difference[]): readonly Difference[] {
  return differences.filter(({ found }) => found !== TENTATIVE);
}

function driftAt(site: Site, { desired }: RecordedPair): Difference[] {
  const { hostSocket, podSocket } = site;
  const { host, pod } = desired;
  const link = getLink(hostSocket, { name: host.name });
  const podLink = getLink(podSocket, { name: pod.name });
  const missing: Difference = { side: "pod", object: `link ${pod.name}`, wanted: "present", found: "missing" };
  const podSide =
    podLink === undefined
      ? [missing]
      : differences("pod", neighbourFields(site, podLink, desired)).filter(({ found }) => found === missing.found);
  const hostSide = inspectHostEnd(hostSocket, desired);
  if (link === undefined) return [...hostSide, ...podSide];
  return [...hostSide, ...clearedAlias(link, desired), ...sysctlDifferences(desired), ...podSide];
}

/** Returns the alias to compare: CHECK takes a link without an owner for Calico's; a recorded one was made with its owner's name. */
function clearedAlias({ name, alias }: Link, { host }: RecordedPair["desired"]): Difference[] {
  return alias === "" ? [{ side: "host", object: `link ${name} alias`, wanted: attachmentAlias(host.owner), found: "" }] : [];
}

/** Compares settings; one that this kernel lacks, and that is not required, does not count. */
function sysctlDifferences({ host }: RecordedPair["desired"]): Difference[] {
  return differingSysctls(host.sysctls).flatMap(({ path, value, required }): Difference[] => {
    const found = readSysctl(path);
    if (found === undefined && !required) return [];
    return [{ side: "host", object: `setting ${path}`, wanted: value, found: found ?? "missing" }];
  });
}

/**
 * Returns the host end where it is this attachment's and its other end is in the sandbox. A pair is gone as a whole: where only one end is
 * found, somebody has moved or renamed the other.
 */
function provenHostEnd(site: Site, { desired: { host, pod }, hostIndex }: RecordedPair): Link | undefined {
  const link = getLink(site.hostSocket, { name: host.name });
  if (link === undefined || !isDeviceKind(link.kind) || !hasPodEnd(site.podSocket, pod.name)) return undefined;
  const isOwn = link.alias === "" ? link.index === hostIndex : namesAttachment(link.alias, host.owner);
  return isOwn ? link : undefined;
}

function hasPodEnd(socket: Netlink, name: string): boolean {
  return getLink(socket, { name }) !== undefined;
}
