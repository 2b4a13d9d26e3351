/** Reads verdicts out of what the packet filter is told, as a kernel would, and applies changes to it. */
import {
  type ClassName,
  type Direction,
  type EndpointPolicy,
  NO_PREDICATE,
  type PacketPolicy,
  type PolicyChange,
} from "../../../dataplane/packet-policy.ts";
import { type Address, formatAddress } from "../../../lib/addresses/address.ts";

/** @returns what the filter says of a packet at one endpoint */
export function filterVerdict(
  state: PacketPolicy,
  hostInterface: string,
  direction: Direction,
  other: Address,
  protocol: number,
  port: number | undefined,
): "allow" | "deny" {
  const endpoint = state.endpoints.get(hostInterface);
  if (endpoint === undefined) return "deny";
  if (endpoint.addresses.some((own) => formatAddress(own) === formatAddress(other))) return "allow";
  const permissions = endpoint[direction];
  if (permissions === undefined) return "allow";
  const permission = permissions.get(classIn(state, other));
  if (permission === undefined || permission === "all") return permission === "all" ? "allow" : "deny";
  const isAllowed = permission.some((one) => one.protocol === protocol && one.first <= (port ?? 0) && (port ?? 65_535) <= one.last);
  return isAllowed ? "allow" : "deny";
}

export function classIn({ addresses, blocks }: PacketPolicy, address: Address): ClassName {
  const block = blocks.find(({ family, first, last }) => family === address.family && first <= address.value && address.value <= last);
  return addresses.get(formatAddress(address)) ?? block?.class ?? NO_PREDICATE;
}

/** A filter that only ever hears of changes. */
export class ChangedFilter {
  readonly #endpoints = new Map<string, EndpointPolicy>();
  readonly #addresses = new Map<string, ClassName>();
  #blocks: PacketPolicy["blocks"] = [];

  apply({ endpoints, addresses, blocks }: PolicyChange): void {
    for (const [name, endpoint] of endpoints) set(this.#endpoints, name, endpoint);
    for (const [address, name] of addresses) set(this.#addresses, address, name);
    this.#blocks = blocks ?? this.#blocks;
  }

  /** Sorted as the engine sorts its own. */
  get state(): PacketPolicy {
    return { endpoints: sorted(this.#endpoints), addresses: sorted(this.#addresses), blocks: this.#blocks };
  }

  /** The entries of a change that are the same already. */
  needless({ endpoints, addresses }: PolicyChange): readonly string[] {
    const same = (one: unknown, other: unknown) => plainText(one) === plainText(other);
    return [
      ...[...endpoints].filter(([name, endpoint]) => same(endpoint, this.#endpoints.get(name))),
      ...[...addresses].filter(([address, name]) => same(name, this.#addresses.get(address))),
    ].map(([name]) => name);
  }
}

function set<V>(map: Map<string, V>, key: string, value: V | undefined): void {
  if (value === undefined) map.delete(key);
  else map.set(key, value);
}

function sorted<V>(map: ReadonlyMap<string, V>): ReadonlyMap<string, V> {
  return new Map([...map].sort(([one], [other]) => (one < other ? -1 : 1)));
}

/** Writes a state or a change as text, in the order in which it stands: equal bytes for equal ones. */
export function stateText(state: PacketPolicy | PolicyChange): string {
  return plainText(state);
}

function plainText(whole: unknown): string {
  const text = JSON.stringify(whole, (_, value: unknown) => {
    if (value instanceof Map) return [...value];
    return typeof value === "bigint" ? value.toString() : value;
  });
  return text ?? "";
}
