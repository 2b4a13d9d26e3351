/** Makes the kernel hold one attachment (C§4.2), in the order that the kernel needs; everything made is undone with the pair of links. */
import { formatPrefix } from "../../lib/addresses/address.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { inNamespace, type OpenNamespace, openNamespace } from "../../lib/system/netns.ts";
import type { Undo } from "../../lib/system/undo.ts";
import type { AppliedState, DesiredState } from "../desired-state.ts";
import { NETLINK_ROUTE, NetlinkError, NetlinkSocket } from "../netlink/socket.ts";
import { addAddress, prefixOf } from "./address.ts";
import { type CreatedPair, confirmPair, createPair, createPairIfFree } from "./create-pair.ts";
import { deleteHostLink } from "./delete-link.ts";
import { installRoute } from "./install-route.ts";
import { getLink, type Link, setLinkAlias, setLinkLocalSource, setLinkUp } from "./link.ts";
import { addNeighbour } from "./neighbour.ts";
import { differingSysctls, readSysctl, writeSysctls } from "./sysctl.ts";

const EEXIST = 17;

/** One end of the pair while it is set up. */
interface End {
  readonly socket: NetlinkSocket;
  readonly index: number;
  readonly name: string;
  /** Whether the kernel would run duplicate address detection on it, which takes a second. */
  readonly runsDad: boolean;
}

/** A way to both ends of a link: the sandbox, and a socket in each namespace. */
interface Site extends Disposable {
  readonly namespace: OpenNamespace;
  readonly hostSocket: NetlinkSocket;
  readonly podSocket: NetlinkSocket;
}

/** A pair that is there and has no addresses yet. */
export interface PreparedPair {
  readonly site: Site;
  readonly pair: CreatedPair;
  /** Absent: down, and nothing of it is set. */
  readonly setUp?: { readonly as: string; readonly warnings: readonly string[] };
  /** Somebody has looked since it was set up, it was as it should be, and the pod has its routes. */
  readonly isRouted?: boolean;
}

/**
 * The pair of links without addresses and routes, where nothing is in its way.
 * @param isComplete the rest of the state is known: the pair has its settings and is up; else it is down
 * @param undo gets its removal
 */
export function preparePair(desired: DesiredState, isComplete: boolean, undo: Undo): PreparedPair | undefined {
  let site: Site | undefined;
  try {
    site = openSite(desired.sandbox);
    const pair = createPairIfFree(site.hostSocket, site.podSocket, site.namespace.fd, desired);
    if (pair !== undefined) {
      undo.defer(() => removeByIndex(pair.host.index));
      setLinkAlias(site.hostSocket, pair.host.index, desired.host.alias);
      if (!isComplete) return { site, pair };
      return { site, pair, setUp: { as: settingsOf(desired), warnings: setUp(site, pair, desired) } };
    }
  } catch {
    // Met again, and explained, when the whole state is applied.
  }
  site?.[Symbol.dispose]();
  return undefined;
}

/** Goes on with a pair that is set up: it is looked at once more, and the pod gets its routes, so that `attach` need do neither. */
export function routePair(prepared: PreparedPair, desired: DesiredState): PreparedPair {
  const { site, pair, setUp } = prepared;
  if (setUp?.as !== settingsOf(desired)) return prepared;
  try {
    if (getLink(site.hostSocket, { index: pair.host.index })?.mac !== desired.host.mac) return prepared;
    addRoutes(site, pair, desired);
    return { ...prepared, isRouted: true };
  } catch {
    // Met again, and explained, when the whole state is applied.
    return prepared;
  }
}

/**
 * @param undo gets the removal of the links, and with them of everything else, as soon as they are there
 * @param prepared of the same state
 * @throws TortieError naming the object that could not be made
 */
export async function attach(desired: DesiredState, undo: Undo, prepared?: PreparedPair): Promise<AppliedState> {
  using site = prepared?.site ?? openSite(desired.sandbox);
  const { namespace, hostSocket, podSocket } = site;
  const pair = prepared && (await reusablePair(hostSocket, prepared, desired));
  const created = pair ?? (await createPair(hostSocket, podSocket, namespace.fd, desired));
  const { kind, host: hostLink, pod: podLink } = created;
  // Once more for a pair that was prepared: it goes before the addresses that it carries now are given back (design, invariant 3).
  undo.defer(() => removeByIndex(hostLink.index));
  // First of all: whoever finds what a killed process left must know whose it is.
  if (pair === undefined) setLinkAlias(hostSocket, hostLink.index, desired.host.alias);
  const warnings = (pair && prepared?.setUp?.warnings) ?? setUp(site, created, desired);

  const { pod } = desired;
  // Routes before addresses, as Calico does it: what the kernel adds for the addresses themselves then comes after them.
  if (pair === undefined || prepared?.isRouted !== true) addRoutes(site, created, desired);
  const podDad = pod.addresses.some(isIpv6) && inNamespace(namespace, () => runsDad(pod.name));
  for (const address of pod.addresses) assignAddress({ ...podLink, socket: podSocket, runsDad: podDad }, address, false);
  const host: End = { ...hostLink, socket: hostSocket, runsDad: desired.host.addresses.some(isIpv6) && runsDad(hostLink.name) };
  for (const address of desired.host.addresses) assignAddress(host, address, true);
  try {
    for (const route of desired.host.routes) installRoute(host.socket, host.index, host.name, route);
  } catch (error) {
    if (!(error instanceof TortieError)) throw error;
    throw new TortieError(error.word, `error adding host side routes for interface: ${host.name}, error: ${error.message}`, {
      cause: error,
    });
  }
  return { podMac: podLink.mac, kind, warnings };
}

/** The prepared pair if it is still there and what was set is what is wanted; one that was set up for another state is removed. */
async function reusablePair(hostSocket: NetlinkSocket, prepared: PreparedPair, desired: DesiredState): Promise<CreatedPair | undefined> {
  const { pair, setUp, isRouted = false } = prepared;
  if (setUp === undefined || setUp.as === settingsOf(desired)) return confirmPair(hostSocket, pair, desired, isRouted);
  deleteHostLink(hostSocket, { index: pair.host.index });
  return undefined;
}

/** All of a state that does not depend on the addresses. */
function settingsOf({ node, host, pod }: DesiredState): string {
  return JSON.stringify([node, host.sysctls, host.addresses, pod.sysctlsBeforeUp, pod.sysctls, pod.neighbours, pod.routes]);
}

/** Whom the pod sends to, and how it finds them. */
function addRoutes({ podSocket }: Site, { pod: { index } }: CreatedPair, { pod }: DesiredState): void {
  for (const neighbour of pod.neighbours) addNeighbour(podSocket, index, neighbour);
  for (const route of pod.routes) installRoute(podSocket, index, pod.name, route);
}

/** Settings, and both ends up. @returns failures that are no reason to stop */
function setUp({ namespace, hostSocket, podSocket }: Site, { host, pod }: CreatedPair, desired: DesiredState): string[] {
  const warnings = [
    ...writeSysctls(differingSysctls(desired.node)),
    ...inNamespace(namespace, () => writeSysctls(desired.pod.sysctlsBeforeUp)),
    ...writeSysctls(desired.host.sysctls),
  ];
  // The pod reaches IPv6 through this address, whatever way the host makes such addresses by default. The kernel makes it again when the link
  // comes up later; but one that the kernel makes would be checked for duplicates where the host insists on that.
  if (desired.host.addresses.some(isIpv6)) setLinkLocalSource(hostSocket, host.index, runsDad(host.name) ? "nobody" : "mac");
  bringUp(hostSocket, host);
  bringUp(podSocket, pod);
  warnings.push(...inNamespace(namespace, () => writeSysctls(desired.pod.sysctls)));
  return warnings;
}

function openSite(sandbox: string): Site {
  const namespace = openNamespace(sandbox);
  let hostSocket: NetlinkSocket | undefined;
  try {
    const host = NetlinkSocket.open(NETLINK_ROUTE);
    hostSocket = host;
    const podSocket = inNamespace(namespace, () => NetlinkSocket.open(NETLINK_ROUTE));
    return {
      namespace,
      hostSocket: host,
      podSocket,
      [Symbol.dispose]() {
        podSocket[Symbol.dispose]();
        host[Symbol.dispose]();
        namespace[Symbol.dispose]();
      },
    };
  } catch (error) {
    hostSocket?.[Symbol.dispose]();
    namespace[Symbol.dispose]();
    throw error;
  }
}

function bringUp(socket: NetlinkSocket, { index, name }: Link): void {
  try {
    setLinkUp(socket, index);
  } catch (error) {
    throw new TortieError("link-failed", `failed to set ${name} up: ${messageOf(error)}`, { cause: error });
  }
}

/**
 * Duplicate address detection is off when both settings are below 1 (net/ipv6/addrconf.c, addrconf_dad_begin). Only where it is on are addresses
 * marked to skip it: the mark shows in `ip addr`, and addresses should look the same everywhere.
 */
function runsDad(name: string): boolean {
  return ["all", name].some((scope) => Number(readSysctl(`net/ipv6/conf/${scope}/accept_dad`) ?? "0") > 0);
}

/** @param isThereFine whether the kernel may have made this address by itself: a link-local one, when the link went up */
function assignAddress(end: End, text: string, isThereFine: boolean): void {
  const prefix = prefixOf(text);
  try {
    addAddress(end.socket, end.index, prefix, end.runsDad && prefix.address.family === 6);
  } catch (error) {
    if (error instanceof NetlinkError && error.errno === EEXIST && isThereFine) return;
    throw new TortieError("address-failed", `failed to add IP addr ${formatPrefix(prefix)} to ${end.name}: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

function isIpv6(address: string): boolean {
  return address.includes(":");
}

/** The index is never given to another link while the namespace lives, so this cannot meet a stranger. */
function removeByIndex(index: number): void {
  using socket = NetlinkSocket.open(NETLINK_ROUTE);
  deleteHostLink(socket, { index });
}
