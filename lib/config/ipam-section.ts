/** Decodes the section `ipam` (C§1.2, I§1.3), Tortie's own keys included. */

import { bitsOf, cidrKey, formatPrefix, LINK_LOCAL, maskPrefix, overlaps, type Prefix, parsePrefix } from "../addresses/address.ts";
import { KeyError } from "../errors/errors.ts";
import { isSubdomain } from "../system/subdomain.ts";
import { anything, boolean, type Decoded, integer, list, record, text, texts } from "./codec.ts";

/** Prefix lengths of blocks that Calico's validation accepts, and its defaults (I§2.7). */
export const BLOCK_SIZES = { 4: { least: 20, most: 32, standard: 26 }, 6: { least: 116, most: 128, standard: 122 } } as const;

/**
 * `ipam.pools`: the pools of the local datastore. Decoding fills in defaults and never refuses a value, so that DEL works whatever
 * became of the configuration; `checkLocalPools` judges the values where pools are made or used for a new address.
 */
const poolSchema = record({ cidr: text, blockSize: integer, name: text, natOutgoing: boolean });

type GivenPool = Decoded<typeof poolSchema>;

/** What a null entry is read as. */
const NO_POOL: GivenPool = { cidr: undefined, blockSize: undefined, name: undefined, natOutgoing: undefined };

export const ipamSchema = record({
  name: text,
  type: text,
  subnet: text,
  ranges: anything,
  routes: anything,
  assign_ipv4: text,
  assign_ipv6: text,
  ipv4_pools: texts,
  ipv6_pools: texts,
  pools: list(poolSchema, "a list of objects", NO_POOL),
  in_process: boolean,
});

/** Addresses from the node's own ranges (A§4); no executable has this name. */
export const HOST_SCOPE = "tortie-host-scope";

/** Azure's IPAM plugin, which releases by address and not by container. */
export const AZURE_IPAM = "azure-vnet-ipam";

/** Knows the plugins that read pools and families from this section, and take single addresses by name: Calico's and ours (C§2.3 S6). */
export function isCalicoIpam(type: string): boolean {
  return type === "calico-ipam" || type === "tortie-ipam";
}

export function ipamConfig(given: Decoded<typeof ipamSchema> | undefined) {
  return {
    type: given?.type ?? "",
    subnet: given?.subnet || undefined,
    /** As given: only host-local gives these two a shape, which is judged where they are used (C§2.4). */
    ranges: given?.ranges ?? undefined,
    routes: given?.routes ?? undefined,
    // Exactly these words count, in exactly this case (recording family-odd-words).
    assignIpv4: given?.assign_ipv4 !== "false",
    assignIpv6: given?.assign_ipv6 === "true",
    ipv4Pools: given?.ipv4_pools,
    ipv6Pools: given?.ipv6_pools,
    pools: (given?.pools ?? []).map(localPool),
    /** false forces an exec of the IPAM executable even when it is the very file that runs. */
    inProcess: given?.in_process ?? true,
  };
}

/** One entry of `ipam.pools`: a pool of the local datastore, made at first use. Values are judged by `checkLocalPools`. */
export type LocalPool = ReturnType<typeof localPool>;

/** Decodes one entry with its defaults; a CIDR that is one gets its canonical spelling. */
function localPool(given: GivenPool) {
  const prefix = parsePrefix(given.cidr ?? "");
  const cidr = prefix === undefined ? (given.cidr ?? "") : formatPrefix(prefix);
  return {
    cidr,
    /** Default 26 for IPv4, 122 for IPv6. */
    blockSize: given.blockSize ?? BLOCK_SIZES[prefix?.address.family ?? 4].standard,
    /** Default: the CIDR's own name. */
    name: given.name || cidrKey(cidr),
    /** Default true: traffic that leaves the pools is masqueraded. */
    natOutgoing: given.natOutgoing ?? true,
  };
}

/**
 * Judges the values of `ipam.pools`.
 * @throws TortieError `netconf-value` naming the entry and what is wrong with it
 */
export function checkLocalPools(pools: readonly LocalPool[]): void {
  const seen: { readonly path: string; readonly pool: LocalPool; readonly prefix: Prefix }[] = [];
  for (const [index, pool] of pools.entries()) {
    const path = `ipam.pools[${index}]`;
    const prefix = checkPoolRange(path, pool);
    // A name that Kubernetes would take as well, so that a pool can move there.
    if (!isSubdomain(pool.name)) {
      throw wrong(`${path}.name`, `"${pool.name}" must be lower-case letters, digits, '-' and '.', at most 253 characters`);
    }
    for (const other of seen) {
      if (other.pool.name === pool.name) throw wrong(path, `and ${other.path} have the same name "${pool.name}"`);
      if (overlaps(other.prefix, prefix)) {
        throw wrong(`${path}.cidr`, `${pool.cidr} overlaps with ${other.pool.cidr} of ${other.path}`);
      }
    }
    seen.push({ path, pool, prefix });
  }
}

/**
 * Judges the CIDR and the block size of one pool, wherever it is written.
 * @param path of the pool: "ipam.pools[0]", or "spec" of an IPPool
 * @throws KeyError `netconf-value`
 */
export function checkPoolRange(path: string, pool: Pick<LocalPool, "cidr" | "blockSize">): Prefix {
  const prefix = checkCidr(path, pool);
  checkBlockSize(path, pool, prefix);
  return prefix;
}

function checkCidr(path: string, pool: Pick<LocalPool, "cidr">): Prefix {
  const prefix = parsePrefix(pool.cidr);
  if (prefix === undefined) throw wrong(`${path}.cidr`, `"${pool.cidr}" is not an address with a prefix length, such as 10.244.0.0/16`);
  const masked = maskPrefix(prefix);
  if (masked.address.value !== prefix.address.value) {
    throw wrong(`${path}.cidr`, `${pool.cidr} has bits after its prefix length; did you mean ${formatPrefix(masked)}?`);
  }
  // I§2.7.
  for (const forbidden of LINK_LOCAL) {
    if (overlaps(forbidden, prefix)) {
      throw wrong(`${path}.cidr`, `${pool.cidr} overlaps with the link-local addresses ${formatPrefix(forbidden)}`);
    }
  }
  return prefix;
}

function checkBlockSize(path: string, pool: Pick<LocalPool, "cidr" | "blockSize">, prefix: Prefix): void {
  const { least, most } = BLOCK_SIZES[prefix.address.family];
  if (pool.blockSize < least || pool.blockSize > most) {
    throw wrong(`${path}.blockSize`, `${pool.blockSize} is outside of ${least} to ${most} for IPv${prefix.address.family}`);
  }
  if (pool.blockSize < prefix.length) {
    throw wrong(
      `${path}.blockSize`,
      `${pool.blockSize} makes blocks larger than the pool ${pool.cidr}; give at least ${prefix.length}, of ${bitsOf(prefix.address.family)}`,
    );
  }
}

function wrong(path: string, problem: string): KeyError {
  return new KeyError("netconf-value", `${path} ${problem}`, path);
}
