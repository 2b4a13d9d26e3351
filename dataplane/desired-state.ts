/**
 * Describes everything the kernel must hold for one attachment, as plain data.
 *
 * ADD applies it, CHECK compares the kernel with it, repair applies the differences, `explain` prints it, tests build it by hand.
 * It does not say in which sandbox: whoever applies it proves that (`Sandbox`). Nothing here knows Kubernetes, Calico or CNI, and nothing
 * outside `dataplane/` knows how the kernel is told.
 */
import { type Address, formatAddress, formatPrefix, type Prefix, parseAddress, parsePrefix } from "../lib/addresses/address.ts";
import { type Fields, field, isBoolean, isNumber, isObject, isText, listOf, oneOf, optional } from "../lib/json/decode.ts";
import type { Writable } from "../lib/json/value.ts";
import type { AttachmentName } from "./alias.ts";

/** Describes a file below /proc/sys and the text it must hold. `path` has no leading slash: "net/ipv4/conf/cali123/proxy_arp". */
export interface Sysctl {
  readonly path: string;
  readonly value: string;
  /** A failure to set it is fatal; otherwise it is reported as a warning (C§4.3). */
  readonly required: boolean;
}

/** Describes a route through one end of the link: table main, protocol boot, unicast, created exclusively (C§4.1). */
export interface Route {
  readonly destination: Prefix;
  /** Next hop; absent for a route that is on link. */
  readonly gateway?: Address;
  readonly scope: "link" | "universe";
  /** Largest packet that takes this route; absent: that of the link. Not compared. */
  readonly mtu?: number;
}

/** Describes a neighbour that is known without asking: no ARP request is ever made for it. */
export interface Neighbour {
  readonly address: Address;
  /** Lower case with colons. */
  readonly mac: string;
}

/** Describes the end of the link in the host's namespace. */
export interface HostEnd {
  readonly name: string;
  /** "ee:ee:ee:ee:ee:ee" (C§4.1). */
  readonly mac: string;
  /** The attachment that owns the link, written as the link's alias. */
  readonly owner: AttachmentName;
  /**
   * Containers of the same workload, by its record: their links of this name are replaced too, even where the link itself does not name
   * the workload. A link of another workload stays, and the ADD fails (`interface-exists`).
   */
  readonly predecessors: readonly string[];
  /** Lists what is written before the link goes up, in this order. */
  readonly sysctls: readonly Sysctl[];
  /** Addresses of the end itself, set without duplicate address detection: the IPv6 next hop of the pod. Empty for IPv4 only. */
  readonly addresses: readonly Prefix[];
  readonly routes: readonly Route[];
}

/** Describes the end of the link inside the sandbox. */
export interface PodEnd {
  readonly name: string;
  /** The requested MAC; absent: the kernel's random one stays. */
  readonly mac?: string;
  /** Lists what is written before the link goes up. */
  readonly sysctlsBeforeUp: readonly Sysctl[];
  /** Lists what is written after the link is up and before addresses and routes. */
  readonly sysctls: readonly Sysctl[];
  /** Single hosts, in the order of the result. */
  readonly addresses: readonly Prefix[];
  readonly routes: readonly Route[];
  readonly neighbours: readonly Neighbour[];
}

export interface DesiredState {
  readonly device: {
    readonly kind: "veth" | "netkit";
    /** 0: the kernel's default. */
    readonly mtu: number;
    /** TX and RX queues of both ends. */
    readonly queues: number;
    /** Largest packets of receive and segmentation offload, both families, in bytes; absent: the kernel's. */
    readonly groMaxSize?: number;
    readonly gsoMaxSize?: number;
  };
  readonly host: HostEnd;
  readonly pod: PodEnd;
}

/** Says one thing in which the kernel is not as desired, in words an operator understands. */
export interface Difference {
  /** Says where: "host" or "pod". */
  readonly side: "host" | "pod";
  /** The object: "link eth0", "route 10.0.0.5/32". */
  readonly object: string;
  readonly wanted: string;
  readonly found: string;
}

/** Tells whether the sandbox has no link of the wanted name at all. */
export function lacksPodEnd(differences: readonly Difference[], { pod }: DesiredState): boolean {
  return lacksLink(differences, "pod", pod.name);
}

/** Tells whether both ends of the pair are gone, so that it can be made again without touching anything that is there. */
export function lacksPair(differences: readonly Difference[], desired: DesiredState): boolean {
  return lacksLink(differences, "host", desired.host.name) && lacksPodEnd(differences, desired);
}

function lacksLink(differences: readonly Difference[], end: Difference["side"], name: string): boolean {
  return differences.some(({ side, object, found }) => side === end && object === `link ${name}` && found === "missing");
}

const isObjects = listOf(isObject);
const isTexts = listOf(isText);

/**
 * Converts a desired state to JSON and back, for the agent's endpoint records (A§5.7): addresses are text there, everything else is as it is.
 */
export function encodeDesiredState({ device, host, pod }: DesiredState): { readonly [key: string]: Writable | undefined } {
  const { owner } = host;
  return {
    device: { ...device },
    host: {
      name: host.name,
      mac: host.mac,
      owner: { network: owner.network, containerId: owner.containerId, interfaceName: owner.ifname, workload: owner.workload },
      predecessors: host.predecessors,
      sysctls: host.sysctls.map((one) => ({ ...one })),
      addresses: host.addresses.map(formatPrefix),
      routes: host.routes.map(encodeRoute),
    },
    pod: {
      name: pod.name,
      mac: pod.mac,
      sysctlsBeforeUp: pod.sysctlsBeforeUp.map((one) => ({ ...one })),
      sysctls: pod.sysctls.map((one) => ({ ...one })),
      addresses: pod.addresses.map(formatPrefix),
      routes: pod.routes.map(encodeRoute),
      neighbours: pod.neighbours.map(({ address, mac }) => ({ address: formatAddress(address), mac })),
    },
  };
}

/** @throws Error naming what is wrong */
export function decodeDesiredState(stored: Fields): DesiredState {
  const device = field(stored, "device", isObject);
  return {
    device: {
      kind: field(device, "kind", oneOf("veth", "netkit")),
      mtu: field(device, "mtu", isNumber),
      queues: field(device, "queues", isNumber),
      ...optional(device, "groMaxSize", isNumber),
      ...optional(device, "gsoMaxSize", isNumber),
    },
    host: decodeHost(field(stored, "host", isObject)),
    pod: decodePod(field(stored, "pod", isObject)),
  };
}

function decodeHost(stored: Fields): HostEnd {
  return {
    name: field(stored, "name", isText),
    mac: field(stored, "mac", isText),
    owner: decodeOwner(field(stored, "owner", isObject)),
    predecessors: field(stored, "predecessors", isTexts),
    sysctls: field(stored, "sysctls", isObjects).map(decodeSysctl),
    addresses: field(stored, "addresses", isTexts).map(prefixOf),
    routes: field(stored, "routes", isObjects).map(decodeRoute),
  };
}

function decodePod(stored: Fields): PodEnd {
  return {
    name: field(stored, "name", isText),
    ...optional(stored, "mac", isText),
    sysctlsBeforeUp: field(stored, "sysctlsBeforeUp", isObjects).map(decodeSysctl),
    sysctls: field(stored, "sysctls", isObjects).map(decodeSysctl),
    addresses: field(stored, "addresses", isTexts).map(prefixOf),
    routes: field(stored, "routes", isObjects).map(decodeRoute),
    neighbours: field(stored, "neighbours", isObjects).map(decodeNeighbour),
  };
}

function decodeOwner(stored: Fields): AttachmentName {
  return {
    network: field(stored, "network", isText),
    containerId: field(stored, "containerId", isText),
    ifname: field(stored, "interfaceName", isText),
    ...optional(stored, "workload", isText),
  };
}

function decodeSysctl(stored: Fields): Sysctl {
  return { path: field(stored, "path", isText), value: field(stored, "value", isText), required: field(stored, "required", isBoolean) };
}

function encodeRoute({ destination, gateway, scope, mtu }: Route): { readonly [key: string]: Writable | undefined } {
  return { destination: formatPrefix(destination), gateway: gateway === undefined ? undefined : formatAddress(gateway), scope, mtu };
}

function decodeRoute(stored: Fields): Route {
  const { gateway } = optional(stored, "gateway", isText);
  return {
    destination: prefixOf(field(stored, "destination", isText)),
    gateway: gateway === undefined ? undefined : addressOf(gateway),
    scope: field(stored, "scope", oneOf("link", "universe")),
    ...optional(stored, "mtu", isNumber),
  };
}

function decodeNeighbour(stored: Fields): Neighbour {
  return { address: addressOf(field(stored, "address", isText)), mac: field(stored, "mac", isText) };
}

function prefixOf(text: string): Prefix {
  const prefix = parsePrefix(text);
  if (prefix === undefined) throw new Error(`"${text}" is no prefix`);
  return prefix;
}

function addressOf(text: string): Address {
  const address = parseAddress(text);
  if (address === undefined) throw new Error(`"${text}" is no address`);
  return address;
}
