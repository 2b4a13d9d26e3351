/** Packet policies as tests write them by hand, which can travel as JSON. */
import type { AddressInterval, EndpointPolicy, PacketPolicy, Permission, PolicyChange } from "../../dataplane/packet-policy.ts";
import { parsePrefix, sizeOf } from "../../lib/addresses/address.ts";
import { address } from "./addresses.ts";

/** "all", or ports such as "tcp 80" and "udp 53-60". */
export type PermissionText = "all" | readonly string[];

export interface EndpointText {
  readonly addresses: readonly string[];
  /** By class; absent: packets in this direction are not judged. */
  readonly ingress?: Readonly<Record<string, PermissionText>>;
  readonly egress?: Readonly<Record<string, PermissionText>>;
}

/** In a change, `null` says that something is gone. */
export interface PolicyText {
  readonly endpoints?: Readonly<Record<string, EndpointText | null>>;
  /** Address → class. */
  readonly addresses?: Readonly<Record<string, string | null>>;
  /** CIDR or "first-last" → class. */
  readonly blocks?: Readonly<Record<string, string>>;
}

const PROTOCOLS: Readonly<Record<string, number>> = { tcp: 6, udp: 17, sctp: 132 };

export function policyOf({ endpoints = {}, addresses = {}, blocks = {} }: PolicyText): PacketPolicy {
  const change = changeOf({ endpoints, addresses, blocks });
  return {
    endpoints: new Map([...change.endpoints].flatMap(([name, policy]) => (policy === undefined ? [] : [[name, policy]]))),
    addresses: new Map([...change.addresses].flatMap(([address, name]) => (name === undefined ? [] : [[address, name]]))),
    blocks: change.blocks ?? [],
  };
}

export function changeOf({ endpoints = {}, addresses = {}, blocks }: PolicyText): PolicyChange {
  return {
    endpoints: new Map(Object.entries(endpoints).map(([name, endpoint]) => [name, endpoint === null ? undefined : endpointOf(endpoint)])),
    addresses: new Map(Object.entries(addresses).map(([address, name]) => [address, name ?? undefined])),
    blocks: blocks && Object.entries(blocks).map(([text, name]) => intervalOf(text, name)),
  };
}

function endpointOf({ addresses, ingress, egress }: EndpointText): EndpointPolicy {
  const permissions = (texts: EndpointText["ingress"]) =>
    texts && new Map(Object.entries(texts).map(([name, text]) => [name, permissionOf(text)]));
  return { addresses: addresses.map(address), ingress: permissions(ingress), egress: permissions(egress) };
}

function permissionOf(text: PermissionText): Permission {
  if (text === "all") return "all";
  return text.map((one) => {
    const [protocol = "", ports = ""] = one.split(" ");
    const [first = 0, last = first] = ports.split("-").map(Number);
    return { protocol: PROTOCOLS[protocol] ?? Number(protocol), first, last };
  });
}

function intervalOf(text: string, name: string): AddressInterval {
  const prefix = parsePrefix(text);
  if (prefix !== undefined) {
    const { family, value } = prefix.address;
    return { family, first: value, last: value + sizeOf(prefix) - 1n, class: name };
  }
  const [first = "", last = ""] = text.split("-");
  return { family: address(first).family, first: address(first).value, last: address(last).value, class: name };
}
