/** `tortiectl ipam show`: how full each pool is, and with --blocks each block. */
import { ownerText } from "../../../doctor/affinities.ts";
import { count } from "../../../doctor/problem.ts";
import { addressAt, formatAddress, parsePrefix } from "../../../lib/addresses/address.ts";
import { stringifyJson, type Writable } from "../../../lib/json/value.ts";
import { printDocument } from "../output.ts";
import type { Terminal } from "../terminal.ts";
import { type BlockView, cells, legend, type PoolView, paint, readPools, type Shares, STANDINGS } from "./figures.ts";
import { showAddress } from "./show-address.ts";
import { noteUnreadable, openStore, type ShowOptions } from "./store.ts";

const BAR_WIDTH = 64;
/** A map has one sign an address, in lines of so many; larger blocks get a bar. */
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
  if (options.output === "json" || options.output === "yaml") {
    const json = stringifyJson({ datastore: store.datastore.description, pools: pools.map((pool) => poolJson(pool, options.blocks)) }, 2);
    await printDocument(terminal, options.output, json);
    return 0;
  }
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

/** "65,536"; numbers of more than 15 digits become a power of two, which is easier to read. */
function grouped(number: bigint): string {
  if (number < 10n ** 15n) return number.toLocaleString("en");
  const exponent = number.toString(2).length - 1;
  return number === 1n << BigInt(exponent) ? `2^${exponent}` : `about 2^${(number - 1n).toString(2).length}`;
}

/** With one decimal; a share above zero is never printed as "0.0 %". */
function percent(part: bigint, whole: bigint): string {
  if (whole === 0n || part === 0n) return "0 %";
  const tenths = Number((part * 1000n) / whole);
  return tenths === 0 ? "<0.1 %" : `${(tenths / 10).toFixed(1)} %`;
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
        }))
      : blocks.length,
  };
}
