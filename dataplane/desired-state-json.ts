/**
 * A desired state as JSON and back, for the agent's endpoint records (A§5.7): addresses are text there, everything else is as it is.
 */
import { type Address, formatAddress, formatPrefix, type Prefix, parseAddress, parsePrefix } from "../lib/addresses/address.ts";
import { type Fields, field, isBoolean, isNumber, isObject, isText, listOf, oneOf, optional } from "../lib/json/decode.ts";
import type { Writable } from "../lib/json/stringify.ts";
import type { AttachmentName } from "./alias.ts";
import type { DesiredState, HostEnd, Neighbour, PodEnd, Route, Sysctl } from "./desired-state.ts";

const isObjects = listOf(isObject);
const isTexts = listOf(isText);

export function encodeDesiredState({ device, host, pod }: DesiredState): { readonly [key: string]: Writable | undefined } {
  const { owner } = host;
  return {
    device: { ...device },
    host: {
      name: host.name,
      mac: host.mac,
      owner: { ...owner },
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
    interfaceName: field(stored, "interfaceName", isText),
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
    ...(gateway === undefined ? {} : { gateway: addressOf(gateway) }),
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
