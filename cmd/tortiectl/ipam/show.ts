/** Runs `tortiectl ipam show`: says how full each pool is, and with --blocks each block, address by address. */

import { ownerText } from "../../../doctor/affinities.ts";
import { otherSizes } from "../../../doctor/blocks.ts";
import { count } from "../../../doctor/problem.ts";
import { Allocator } from "../../../ipam-plugin/allocator/allocator.ts";
import { holderOf, isFree } from "../../../ipam-plugin/allocator/block.ts";
import { allows } from "../../../ipam-plugin/allocator/pools.ts";
import { Reservations } from "../../../ipam-plugin/allocator/reservations.ts";
import type { BlockUtilisation, PoolUtilisation } from "../../../ipam-plugin/allocator/types.ts";
import { systemClock } from "../../../ipam-plugin/host.ts";
import { type Address, addressAt, formatAddress, parsePrefix } from "../../../lib/addresses/address.ts";
import type { Datastore } from "../../../lib/datastore/datastore.ts";
import type { Block, BlockOwner, IPPool } from "../../../lib/datastore/resources.ts";
import { stringifyJson, type Writable } from "../../../lib/json/value.ts";
import type { Standing } from "../../../ui/contract.ts";
import { grouped, percent } from "../../../ui/format.ts";
import { type Colors, printsDocument, type Terminal } from "../terminal.ts";
import { showAddress } from "./show-address.ts";
import { noteUnreadable, openStore, type ShowOptions } from "./store.ts";

const BAR_WIDTH = 64;
/** Draws one sign an address in a map, in lines of so many; larger blocks get a bar. */
const LINE = 64;
const LARGEST_MAP = 512;

/** @returns exit status */
export function show(options: ShowOptions, terminal: Terminal): Promise<number> {
  return options.ip === undefined ? showPools(options, terminal) : showAddress(options.ip, options, terminal);
}

async function showPools(options: ShowOptions, terminal: Terminal): Promise<number> {
  await using store = await openStore(options);
  const pools = await readPools(store.datastore);
  noteUnreadable({ unreadable: new Set([...store.unreadable, ...pools.flatMap(({ pool }) => pool.unreadable)]) }, terminal);
  const json = () =>
    stringifyJson({ datastore: store.datastore.description, pools: pools.map((pool) => poolJson(pool, options.blocks)) }, 2);
  if (await printsDocument(terminal, options.output, json)) return 0;
  terminal.out(terminal.colors.dim(store.datastore.description));
  if (pools.length === 0)
    terminal.out(`no pools: ${store.isLocal ? "the first ADD of a network makes those of its ipam.pools" : "make an IPPool"}`);
  for (const pool of pools) printPool(pool, options.blocks, terminal);
  const occurring = new Set(pools.flatMap(({ shares }) => STANDINGS.filter((standing) => shares[standing] > 0n)));
  if (occurring.size > 0) terminal.out(`\n${legend(occurring, terminal.colors)}`);
  return 0;
}

function printPool({ pool, limits, blocks, capacity, shares }: PoolView, withBlocks: boolean, terminal: Terminal): void {
  const { bold, dim, yellow } = terminal.colors;
  const nodes = new Set(blocks.flatMap(({ owner }) => (owner === undefined ? [] : [ownerText(owner)])));
  terminal.out("");
  terminal.out(`${bold(pool.cidr)}  pool ${pool.name}  ${dim(`${count(blocks.length, "block")}, ${count(nodes.size, "owner")}`)}`);
  if (limits.length > 0) terminal.out(`  ${yellow(limits.join("; "))}`);
  terminal.out(`  ${paint(cells(shares, BAR_WIDTH), terminal.colors)}  ${percent(capacity - shares.free, capacity)}`);
  terminal.out(`  ${figuresText(shares, capacity)}`);
  if (withBlocks) for (const block of blocks) printBlock(block, terminal);
}

function printBlock({ cidr, owner, capacity, shares, map }: BlockView, terminal: Terminal): void {
  const { colors } = terminal;
  terminal.out("");
  terminal.out(
    `  ${colors.bold(cidr)}  ${owner === undefined ? "without owner" : `of ${ownerText(owner)}`}  ${colors.dim(figuresText(shares, capacity))}`,
  );
  if (map.length > LARGEST_MAP) {
    terminal.out(`    ${paint(cells(shares, BAR_WIDTH), colors)}`);
    return;
  }
  const prefix = parsePrefix(cidr);
  for (let from = 0; from < map.length; from += LINE) {
    const address = prefix === undefined ? "" : formatAddress(addressAt(prefix, from));
    terminal.out(`    ${paint(map.slice(from, from + LINE), colors)}  ${colors.dim(address)}`);
  }
}

function figuresText(shares: Shares, capacity: bigint): string {
  const parts = STANDINGS.filter((standing) => shares[standing] > 0n || standing === "used" || standing === "free");
  return `${parts.map((standing) => `${grouped(shares[standing])} ${standing}`).join(", ")} of ${grouped(capacity)}`;
}

function poolJson({ pool, limits, blocks, capacity, shares }: PoolView, withBlocks: boolean): Writable {
  return {
    name: pool.name,
    cidr: pool.cidr,
    limits,
    capacity,
    ...shares,
    blocks: withBlocks
      ? blocks.map((block) => ({
          cidr: block.cidr,
          owner: block.owner === undefined ? null : `${block.owner.type}:${block.owner.name}`,
          capacity: block.capacity,
          ...block.shares,
          map: block.map.map((standing) => LETTERS[standing]).join(""),
        }))
      : blocks.length,
  };
}

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

/** Reads the pools by name, each with the blocks inside it. */
export async function readPools(datastore: Datastore): Promise<readonly PoolView[]> {
  const allocator = new Allocator({ datastore, clock: systemClock });
  const reservations = new Reservations((await datastore.reservations.list()).map(({ value }) => value));
  const blocks = new Map((await datastore.blocks.list()).map(({ value }) => [value.cidr, value]));
  const pools = new Map((await datastore.pools.list()).map(({ value }) => [value.name, value]));
  return (await allocator.utilisation()).map((pool) => {
    const views = pool.blocks.flatMap((figures) => {
      const block = blocks.get(figures.cidr);
      return block === undefined ? [] : [blockView(figures, block, reservations)];
    });
    return {
      pool,
      limits: limitsWithin(pools.get(pool.name), pool),
      blocks: views.sort(byAddress),
      capacity: pool.capacity,
      shares: poolShares(pool, views),
    };
  });
}

/** Says what a pool does not serve, and that it has blocks of another size. */
function limitsWithin(pool: IPPool | undefined, { blocks }: PoolUtilisation): readonly string[] {
  if (pool === undefined) return [];
  const sizes = otherSizes(
    pool,
    blocks.flatMap(({ cidr }) => parsePrefix(cidr) ?? []),
  );
  return [...limitsOf(pool), ...(sizes === undefined ? [] : [sizes])];
}

/** Compares addresses, because keys of blocks sort as text: 10.0.100.0 before 10.0.9.0. */
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

/** Adds up a pool's shares; what no block holds yet is free or reserved. */
function poolShares({ capacity, available }: PoolUtilisation, blocks: readonly BlockView[]): Shares {
  const sum = (standing: Standing) => blocks.reduce((total, { shares }) => total + shares[standing], 0n);
  const [used, borrowed, cooling] = [sum("used"), sum("borrowed"), sum("cooling")];
  return { used, borrowed, cooling, free: available, reserved: capacity - available - used - borrowed - cooling };
}

/** Says in words, the most severe first, what a pool does not serve; empty for a pool that serves every pod of every node. */
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

export const STANDINGS: readonly Standing[] = ["used", "borrowed", "cooling", "reserved", "free"];

const SIGNS: Readonly<Record<Standing, string>> = { used: "█", borrowed: "▓", cooling: "▒", reserved: "×", free: "·" };

/** Stands for them in JSON, one letter an address. */
const LETTERS: Readonly<Record<Standing, string>> = { used: "u", borrowed: "b", cooling: "c", reserved: "r", free: "." };

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

/** Joins the signs to one text, neighbours of a kind coloured together. */
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

/** Writes "█ used  ▒ cooling …", of those that occur. */
export function legend(occurring: ReadonlySet<Standing>, colors: Colors): string {
  return STANDINGS.filter((standing) => occurring.has(standing))
    .map((standing) => `${coloured(standing, SIGNS[standing], colors)} ${standing}`)
    .join("  ");
}

const COLOURS = { used: "green", borrowed: "magenta", cooling: "yellow", reserved: "blue", free: "dim" } as const;

function coloured(standing: Standing, text: string, colors: Colors): string {
  return colors[COLOURS[standing]](text);
}
