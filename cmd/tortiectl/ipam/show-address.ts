/** Runs `tortiectl ipam show --ip`: says who has an address, and since when. */

import { ownerText } from "../../../doctor/affinities.ts";
import { BlockIndex, keyOf, type PlacedBlock, placedBlocks, placedPools } from "../../../doctor/snapshot.ts";
import { holderOf, isFree } from "../../../ipam-plugin/allocator/block.ts";
import { DEFAULT_CONFIGURATION } from "../../../ipam-plugin/allocator/operation.ts";
import { Reservations } from "../../../ipam-plugin/allocator/reservations.ts";
import { type Address, contains, formatAddress, parseAddress } from "../../../lib/addresses/address.ts";
import type { Datastore } from "../../../lib/datastore/datastore.ts";
import { TortieError } from "../../../lib/errors/errors.ts";
import { stringifyJson } from "../../../lib/json/value.ts";
import { columns, type Output, printsDocument, type Terminal } from "../terminal.ts";
import { endpointNames, noteUnreadable, openStore, type ShowOptions, type Store } from "./store.ts";

/** Facts by name, in the order to print them; what is not known is left out. */
type Facts = Readonly<Record<string, string | undefined>>;

/** @returns exit status */
export async function showAddress(text: string, options: ShowOptions, terminal: Terminal): Promise<number> {
  parseIp(text);
  await using store = await openStore(options);
  await showAddressOf(text, store, options.output, terminal);
  return 0;
}

/** @throws TortieError `option-invalid`, `address-outside-pools` */
export async function showAddressOf(
  text: string,
  store: Pick<Store, "datastore" | "unreadable">,
  output: Output,
  terminal: Terminal,
): Promise<void> {
  const facts = await factsOf(store.datastore, parseIp(text));
  noteUnreadable(store, terminal);
  if (await printsDocument(terminal, output, () => stringifyJson(facts, 2))) return;
  const { address: name, standing, ...rest } = facts;
  terminal.out(`${terminal.colors.bold(name ?? "")} is ${standing}`);
  for (const line of columns(Object.entries(rest).flatMap(([key, value]) => (value === undefined ? [] : [[labelOf(key), value]]))))
    terminal.out(line);
}

/** Writes "freeAgain" as people do. */
function labelOf(key: string): string {
  return key.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}

/** @throws TortieError `option-invalid` */
export function parseIp(text: string): Address {
  const address = parseAddress(text);
  if (address === undefined) throw new TortieError("option-invalid", `--ip "${text}" is not an address`);
  return address;
}

/** Says how an address stands, as the store has it. @throws TortieError `address-outside-pools` */
export async function factsOf(datastore: Datastore, address: Address): Promise<Facts> {
  const pool = placedPools((await datastore.pools.list()).map(({ value }) => value)).find(({ prefix }) => contains(prefix, address));
  const [placed] = new BlockIndex(placedBlocks(await datastore.blocks.list())).holding(address);
  if (pool === undefined && placed === undefined) {
    throw new TortieError("address-outside-pools", `${formatAddress(address)} is not in a configured pool, and in no block`);
  }
  const users = await endpointNames(datastore, [address]);
  return {
    address: formatAddress(address),
    ...(placed === undefined ? { standing: await unusedStanding(datastore, address) } : await standingIn(datastore, placed, address)),
    endpoint: users === undefined ? "unknown: this account may not list pods" : users.get(keyOf(address))?.join(", "),
    block: placed?.block.cidr,
    owner: placed?.block.affinity && ownerText(placed.block.affinity),
    pool: pool && `${pool.pool.cidr} (${pool.pool.name})`,
  };
}

async function standingIn(datastore: Datastore, { block, prefix }: PlacedBlock, address: Address): Promise<Facts> {
  const ordinal = Number(address.value - prefix.address.value);
  if (isFree(block, ordinal)) return { standing: await unusedStanding(datastore, address) };
  const holder = holderOf(block, ordinal);
  if (holder === undefined) return coolingFacts(datastore, block.attributes[block.allocations[ordinal] ?? -1]?.releasedAt ?? "");
  const { node, pod, namespace, timestamp, ...others } = holder.activeOwner ?? {};
  const isBorrowed = node !== undefined && !(block.affinity?.type === "host" && block.affinity.name === node);
  return {
    standing: isBorrowed ? "used, borrowed from another node's block" : "used",
    handle: holder.handleId,
    node,
    pod: pod === undefined ? undefined : `${namespace}/${pod}`,
    since: timestamp,
    sequenceNumber: String(block.sequenceNumberForAllocation[ordinal] ?? 0n),
    ...others,
    alternateOwner: holder.alternateOwner && JSON.stringify(holder.alternateOwner),
  };
}

async function coolingFacts(datastore: Datastore, releasedAt: string): Promise<Facts> {
  const { ipCooldownSeconds } = (await datastore.ipamConfiguration.get("default"))?.value ?? DEFAULT_CONFIGURATION;
  const until = Date.parse(releasedAt) + ipCooldownSeconds * 1000;
  return {
    standing: "cooling down",
    released: releasedAt,
    freeAgain: Number.isNaN(until) ? undefined : new Date(until).toISOString().replace(".000Z", "Z"),
  };
}

async function unusedStanding(datastore: Datastore, { family, value }: Address): Promise<string> {
  const reservations = new Reservations((await datastore.reservations.list()).map((reservation) => reservation.value));
  return reservations.reservedUntil(family, value) === undefined ? "free" : "reserved";
}
