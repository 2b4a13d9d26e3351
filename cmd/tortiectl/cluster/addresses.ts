/** Runs `kubectl tortie ip` and `blocks`: what the cluster's blocks say, one address and all of them. */
import { ownerText } from "../../../doctor/affinities.ts";
import { stringifyJson } from "../../../lib/json/value.ts";
import { type BlockView, readPools, STANDINGS } from "../ipam/show.ts";
import { showAddressOf } from "../ipam/show-address.ts";
import { noteUnreadable } from "../ipam/store.ts";
import { columns, type Output, oneLine, printsDocument, type Terminal } from "../terminal.ts";
import { type ClusterOptions, explained, openCluster } from "./access.ts";

interface AddressOptions extends ClusterOptions {
  readonly address: string;
  readonly output: Output;
}

interface BlocksOptions extends ClusterOptions {
  /** Shows the blocks of this node alone. */
  readonly node: string | undefined;
  readonly output: Output;
}

/** @returns exit status */
export async function ip({ address, output, ...options }: AddressOptions, terminal: Terminal): Promise<number> {
  using cluster = openCluster(options);
  await explained(() => showAddressOf(address, cluster, output, terminal));
  return 0;
}

/** @returns exit status */
export async function blocks({ node, output, ...options }: BlocksOptions, terminal: Terminal): Promise<number> {
  using cluster = openCluster(options);
  const pools = await explained(() => readPools(cluster.datastore));
  noteUnreadable(cluster, terminal);
  const found = pools.flatMap(({ pool, blocks: own }) => own.map((block) => ({ pool: pool.name, block })));
  const wanted = found.filter(({ block: { owner } }) => node === undefined || (owner?.type === "host" && owner.name === node));
  const list = () =>
    wanted.map(({ pool, block: { cidr, owner, capacity, shares } }) => ({
      ...{ cidr, pool, owner: owner === undefined ? null : `${owner.type}:${owner.name}`, capacity },
      ...shares,
    }));
  if (await printsDocument(terminal, output, () => stringifyJson(list(), 2))) return 0;
  const isWide = output === "wide";
  const head = ["BLOCK", "OWNER", "POOL", "USED", "FREE", ...(isWide ? OTHERS.map((one) => one.toUpperCase()) : []), "OF"];
  const rows = wanted.map(({ pool, block }) => rowOf(pool, block, isWide));
  for (const line of columns([head, ...rows], "")) terminal.out(oneLine(line));
  if (wanted.length === 0) terminal.err(node === undefined ? "no blocks" : `no blocks of node ${node}`);
  return 0;
}

/** Lists what an address can be beside used and free. */
const OTHERS = STANDINGS.filter((one) => one !== "used" && one !== "free");

function rowOf(pool: string, { cidr, owner, capacity, shares }: BlockView, isWide: boolean): readonly string[] {
  // A borrowed address is used too, by another node.
  const used = shares.used + (isWide ? 0n : shares.borrowed);
  const others = isWide ? OTHERS.map((one) => String(shares[one])) : [];
  return [cidr, owner === undefined ? "-" : ownerText(owner), pool, String(used), String(shares.free), ...others, String(capacity)];
}
