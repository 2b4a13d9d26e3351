/**
 * Chooses addresses of a node's range that no pod gets: the agent's own, which are granted like any other under the node's names (A§1.6),
 * and those that the node has or routes elsewhere already (A§4.5).
 */
import type { HostLinkAddress, HostRoute } from "../../../dataplane/linux/host-facts.ts";
import type { Exclusion, HostScope } from "../../../ipam-plugin/host-scope/host-scope.ts";
import { type HostRange, offsetOf } from "../../../ipam-plugin/host-scope/range.ts";
import {
  type Address,
  contains,
  covers,
  type Family,
  formatAddress,
  formatPrefix,
  hostPrefix,
  isSameAddress,
  type Prefix,
  parsePrefix,
} from "../../../lib/addresses/address.ts";
import { TortieError } from "../../../lib/errors/errors.ts";

export const ROUTER = "node/router";
export const HEALTH = "node/health";

/**
 * Grants the address that the node has under this name, the same one as before where that is possible.
 * @param remembered of the last start, or of the node's annotations
 * @returns `undefined` when the range is full: nothing ends for want of it
 */
export async function ownAddress(
  name: typeof ROUTER | typeof HEALTH,
  range: HostRange,
  remembered: readonly (Address | undefined)[],
  hostScope: HostScope,
): Promise<Address | undefined> {
  const owner = { kind: "name", name } as const;
  const usable = (address: Address | undefined): address is Address => address !== undefined && offsetOf(range, address) !== undefined;
  const held = (await hostScope.heldBy(owner)).map(({ address }) => address).filter(usable);
  const wanted = remembered.filter(usable);
  const kept = wanted.find((address) => held.some((one) => formatAddress(one) === formatAddress(address))) ?? held[0];
  if (kept !== undefined) return kept;
  for (const address of wanted) {
    // A pod that has it now keeps it.
    const granted = await orNothing(() => hostScope.grant({ owner, addresses: [address], mayBeForeign: true }), "address-taken");
    if (granted !== undefined) return address;
  }
  const [granted] = (await orNothing(() => hostScope.grant({ owner, families: [range.family] }), "addresses-exhausted")) ?? [];
  return granted?.address;
}

async function orNothing<T>(grant: () => Promise<T>, word: string): Promise<T | undefined> {
  try {
    return await grant();
  } catch (error) {
    if (error instanceof TortieError && error.word === word) return undefined;
    throw error;
  }
}

export interface HostFacts {
  readonly addresses: readonly LinkAddress[];
  readonly routes: readonly HostRoute[];
}

/** Addresses of a range that are never given out. */
export interface Excluded {
  readonly exclusions: readonly Exclusion[];
  /** Routes wider than a range: they exclude nothing, and are worth a word. */
  readonly shadowing: readonly string[];
}

/** @param isOwn an address of the agent itself, which has a grant */
export function exclusionsOf(
  ranges: readonly Prefix[],
  nodeAddresses: readonly Address[],
  host: HostFacts,
  isOwn: (address: Address) => boolean,
): Excluded {
  const inRange = (address: Address) => ranges.some((range) => contains(range, address)) && !isOwn(address);
  const ofNode = nodeAddresses.filter(inRange).map((address) => ({ prefix: hostPrefix(address), reason: "address of the node" }));
  const ofLinks = host.addresses
    .filter(({ address }) => inRange(address) && !nodeAddresses.some((one) => isSameAddress(one, address)))
    .map(({ address, link }) => ({ prefix: hostPrefix(address), reason: `address of ${link}` }));
  const ownLinks = new Set(host.addresses.filter(({ address }) => isOwn(address)).map(({ link }) => link));
  const routes = host.routes.filter(
    ({ destination, link, leadsElsewhere }) => leadsElsewhere && destination.length > 0 && !ownLinks.has(link),
  );
  const ofRoutes = routes
    .filter(({ destination }) => ranges.some((range) => covers(range, destination)))
    .map(({ destination, link }) => ({ prefix: destination, reason: `route ${formatPrefix(destination)} dev ${link}` }));
  const shadowing = routes.flatMap(({ destination, link }) =>
    ranges
      .filter((range) => destination.length < range.length && covers(destination, range))
      .map((range) => `route ${formatPrefix(destination)} dev ${link} is wider than the range ${formatPrefix(range)}`),
  );
  return { exclusions: [...ofNode, ...ofLinks, ...ofRoutes], shadowing };
}

export type LinkAddress = Pick<HostLinkAddress, "address" | "link" | "isUp" | "scope">;

/** RFC 1918 and RFC 4193. */
const PRIVATE: readonly Prefix[] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"].flatMap((text) => parsePrefix(text) ?? []);
const LOOPBACK = "lo";

/**
 * Chooses the host's own address, the same one at every start (A§1.5).
 * @returns the address of widest scope, public before private, lowest first; `undefined` when the host has no address
 */
export function chooseHostAddress(addresses: readonly LinkAddress[], family: Family): Address | undefined {
  const candidates = addresses.filter(
    ({ address, link, isUp }) => address.family === family && isUp && !link.startsWith("docker") && link !== LOOPBACK,
  );
  return candidates.sort(byRank)[0]?.address;
}

function byRank(one: LinkAddress, other: LinkAddress): number {
  if (one.scope !== other.scope) return one.scope - other.scope;
  const isPrivate = ({ address }: LinkAddress) => Number(PRIVATE.some((prefix) => contains(prefix, address)));
  const difference = isPrivate(one) - isPrivate(other);
  if (difference !== 0) return difference;
  return one.address.value < other.address.value ? -1 : 1;
}
