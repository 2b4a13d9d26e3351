/** The host's own address, the same one at every start (A§1.5). Pure. */
import { type Address, contains, type Family, type Prefix, parsePrefix } from "../../lib/addresses/address.ts";

/** An address of one of the host's links. */
export interface LinkAddress {
  readonly address: Address;
  readonly link: string;
  readonly isUp: boolean;
  /** RT_SCOPE_*: 0 is global, larger ones are narrower (include/uapi/linux/rtnetlink.h). */
  readonly scope: number;
}

/** RFC 1918 and RFC 4193. */
const PRIVATE: readonly Prefix[] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"].flatMap((text) => parsePrefix(text) ?? []);
const LOOPBACK = "lo";

/** @returns the address of widest scope, public before private, lowest first; `undefined` when there is none */
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
