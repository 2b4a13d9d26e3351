/** How full pools and blocks are, address by address: what each one is, and sums of that. */

import { Allocator } from "../../../ipam-plugin/allocator/allocator.ts";
import { holderOf, isFree } from "../../../ipam-plugin/allocator/block.ts";
import { allows } from "../../../ipam-plugin/allocator/pools.ts";
import { Reservations } from "../../../ipam-plugin/allocator/reservations.ts";
import type { BlockUtilisation, PoolUtilisation } from "../../../ipam-plugin/allocator/types.ts";
import { systemClock } from "../../../ipam-plugin/node.ts";
import { type Address, addressAt, parsePrefix } from "../../../lib/addresses/address.ts";
import type { BlockOwner, Datastore } from "../../../lib/datastore/datastore.ts";
import type { Block, IPPool } from "../../../lib/datastore/resources.ts";
import type { Colors } from "../terminal.ts";

export interface PoolView extends Figures {
  readonly pool: PoolUtilisation;
  /** See `limitsOf`. */
  readonly limits: readonly string[];
  readonly blocks: readonly BlockView[];
}

export interface BlockView extends Figures {
  readonly cidr: string;
  readonly owner: BlockOwner | undefined;
  /** What each address is, in order. */
  readonly map: readonly Standing[];
}

interface Figures {
  readonly capacity: bigint;
  readonly shares: Shares;
}

/** Pools by name, each with the blocks inside it. */
export async function readPools(datastore: Datastore): Promise<readonly PoolView[]> {
  const allocator = new Allocator({ datastore, clock: systemClock });
  const reservations = new Reservations((await datastore.reservations.list()).map(({ value }) => value));
  const blocks = new Map((await datastore.blocks.list()).map(({ value }) => [value.cidr, value]));
  const limits = new Map((await datastore.pools.list()).map(({ value }) => [value.name, limitsOf(value)]));
  return (await allocator.utilisation()).map((pool) => {
    const views = pool.blocks.flatMap((figures) => {
      const block = blocks.get(figures.cidr);
      return block === undefined ? [] : [blockView(figures, block, reservations)];
    });
    return {
      pool,
      limits: limits.get(pool.name) ?? [],
      blocks: views.sort(byAddress),
      capacity: pool.capacity,
      shares: poolShares(pool, views),
    };
  });
}

/** Keys of blocks sort as text: 10.0.100.0 before 10.0.9.0. */
function byAddress(a: BlockView, b: BlockView): number {
  const [one, other] = [a, b].map(({ cidr }) => parsePrefix(cidr)?.address.value ?? 0n);
  return (one ?? 0n) < (other ?? 0n) ? -1 : 1;
}

function blockView({ cidr, owner, capacity }: BlockUtilisation, block: Block, reservations: Reservations): BlockView {
  const prefix = parsePrefix(cidr);
  const map = block.allocations.flatMap((_, ordinal) =>
    prefix === undefined ? [] : standingOf(block, ordinal, addressAt(prefix, ordinal), reservations),
  );
  return { cidr, owner, capacity, map, shares: counted(map) };
}

function standingOf(block: Block, ordinal: number, address: Address, reservations: Reservations): Standing {
  if (isFree(block, ordinal)) return reservations.reservedUntil(address.family, address.value) === undefined ? "free" : "reserved";
  const holder = holderOf(block, ordinal);
  if (holder === undefined) return "cooling";
  const node = holder.activeOwner?.node;
  const isOwners = block.affinity?.type === "host" && block.affinity.name === node;
  return node === undefined || isOwners ? "used" : "borrowed";
}

function counted(map: readonly Standing[]): Shares {
  const counts: Record<Standing, bigint> = { used: 0n, borrowed: 0n, cooling: 0n, reserved: 0n, free: 0n };
  for (const standing of map) counts[standing]++;
  return counts;
}

/** What no block holds yet is free or reserved. */
function poolShares({ capacity, available }: PoolUtilisation, blocks: readonly BlockView[]): Shares {
  const sum = (standing: Standing) => blocks.reduce((total, { shares }) => total + shares[standing], 0n);
  const [used, borrowed, cooling] = [sum("used"), sum("borrowed"), sum("cooling")];
  return { used, borrowed, cooling, free: available, reserved: capacity - available - used - borrowed - cooling };
}

/** In words, the most severe first; empty for a pool that serves every pod of every node. */
export function limitsOf(pool: IPPool): readonly string[] {
  const isFor = (selector: string) => selector !== "" && selector.trim() !== "all()";
  return [
    ...(pool.disabled ? ["disabled"] : []),
    ...(pool.deleting ? ["being deleted"] : []),
    ...(pool.allocatable === false ? ["not allocatable"] : []),
    ...(allows(pool, "Workload") ? [] : [`only for ${pool.allowedUses.join(", ")}`]),
    ...(pool.assignmentMode === "Automatic" ? [] : ["only for who names it"]),
    ...(isFor(pool.nodeSelector) ? [`nodes ${pool.nodeSelector}`] : []),
    ...(isFor(pool.namespaceSelector) ? [`namespaces ${pool.namespaceSelector}`] : []),
  ];
}

type Standing = "used" | "borrowed" | "cooling" | "reserved" | "free";

export const STANDINGS: readonly Standing[] = ["used", "borrowed", "cooling", "reserved", "free"];

const SIGNS: Readonly<Record<Standing, string>> = { used: "█", borrowed: "▓", cooling: "▒", reserved: "×", free: "·" };

export type Shares = Readonly<Record<Standing, bigint>>;

/**
 * Divides `width` signs in proportion to the shares. Every share above zero gets at least one sign, at the expense of the largest.
 * @param width at least one sign for each standing
 */
export function cells(shares: Shares, width: number): readonly Standing[] {
  const total = STANDINGS.reduce((sum, standing) => sum + shares[standing], 0n);
  if (total === 0n) return [];
  const widths = STANDINGS.map((standing) => {
    const share = shares[standing];
    return share === 0n ? 0 : Math.max(1, Math.round(Number((share * BigInt(width) * 1000n) / total) / 1000));
  });
  const excess = widths.reduce((sum, one) => sum + one, 0) - width;
  const largest = widths.indexOf(Math.max(...widths));
  return STANDINGS.flatMap((standing, index) => Array<Standing>((widths[index] ?? 0) - (index === largest ? excess : 0)).fill(standing));
}

/** The signs as one text, neighbours of a kind coloured together. */
export function paint(standings: readonly Standing[], colors: Colors): string {
  let text = "";
  for (let from = 0; from < standings.length; ) {
    const standing = standings[from] ?? "free";
    let to = from;
    while (standings[to] === standing) to++;
    text += coloured(standing, SIGNS[standing].repeat(to - from), colors);
    from = to;
  }
  return text;
}

/** "█ used  ▒ cooling …", of those that occur. */
export function legend(occurring: ReadonlySet<Standing>, colors: Colors): string {
  return STANDINGS.filter((standing) => occurring.has(standing))
    .map((standing) => `${coloured(standing, SIGNS[standing], colors)} ${standing}`)
    .join("  ");
}

function coloured(standing: Standing, text: string, colors: Colors): string {
  switch (standing) {
    case "used":
      return colors.green(text);
    case "borrowed":
      return colors.magenta(text);
    case "cooling":
      return colors.yellow(text);
    case "reserved":
      return colors.blue(text);
    case "free":
      return colors.dim(text);
  }
}
