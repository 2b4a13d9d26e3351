/** Runs `tortiectl ipam release`: gives addresses back at once, and says whose they were. */
import { keyOf } from "../../../doctor/snapshot.ts";
import { Allocator } from "../../../ipam-plugin/allocator/allocator.ts";
import type { HeldAddress } from "../../../ipam-plugin/allocator/types.ts";
import { systemClock } from "../../../ipam-plugin/host.ts";
import { type Address, formatAddress } from "../../../lib/addresses/address.ts";
import type { Datastore } from "../../../lib/datastore/datastore.ts";
import { TortieError } from "../../../lib/errors/errors.ts";
import { stringifyJson } from "../../../lib/json/value.ts";
import { note, type Terminal } from "../terminal.ts";
import { parseIp } from "./show-address.ts";
import { endpointNames, lockOf, openStore, type StoreOptions } from "./store.ts";

interface ReleaseOptions extends StoreOptions {
  readonly ip: readonly string[] | undefined;
  readonly handle: readonly string[] | undefined;
  readonly container: readonly string[] | undefined;
  readonly lockFile: string | undefined;
}

/** Tells what was given back, and what it was. */
interface Released {
  readonly address: Address;
  readonly handle: string | undefined;
  /** "pod default/web on node worker-1", as far as known. */
  readonly holder: string;
}

/** @returns exit status: 1 when something that was named holds no address */
export async function releaseAddresses(options: ReleaseOptions, terminal: Terminal): Promise<number> {
  const addresses = (options.ip ?? []).map(parseIp);
  const { handle: handles = [], container: containers = [] } = options;
  if (addresses.length + handles.length + containers.length === 0) {
    throw new TortieError("option-invalid", "release what? give --ip, --handle or --container");
  }
  await using store = await openStore(options);
  const { datastore } = store;
  const allocator = new Allocator({ datastore, clock: systemClock });
  const released: Released[] = [];
  const missing: string[] = [];

  const lock = lockOf(store, options.lockFile, terminal);
  for (const address of addresses) {
    using _held = await lock();
    const done = await releaseAddress(allocator, address);
    if (done === undefined) missing.push(`IP address ${formatAddress(address)} is not assigned`);
    else released.push(done);
  }
  const ofContainers = await handlesOf(datastore, containers, missing);
  for (const handle of new Set([...handles, ...ofContainers])) {
    using _held = await lock();
    const done = await releaseHandle(allocator, handle);
    if (done.length === 0) missing.push(`handle ${handle} holds no address`);
    released.push(...done);
  }

  await print(options, datastore, released, missing, terminal);
  return missing.length === 0 ? 0 : 1;
}

/** Releases with handle and sequence number, so that what is given back is what was looked at. */
async function releaseAddress(allocator: Allocator, address: Address): Promise<Released | undefined> {
  const held = await allocator.attributesOf(address);
  if (held === undefined) return undefined;
  const { block, handle, sequenceNumber } = held;
  const { unallocated, error } = await allocator.releaseIps([{ address, block, sequenceNumber, handle }]);
  if (error !== undefined) throw error;
  return unallocated.length > 0 ? undefined : releasedOf(held);
}

async function releaseHandle(allocator: Allocator, handle: string): Promise<readonly Released[]> {
  const held = new Map(((await allocator.addressesByHandle(handle)) ?? []).map((one) => [keyOf(one.address), one]));
  const { released } = await allocator.releaseByHandle(handle);
  return released.map((address) => {
    const known = held.get(keyOf(address));
    return known === undefined ? { address, handle, holder: "" } : releasedOf(known);
  });
}

/** Finds handles of containers in any network: `<network>.<container>`, or the container alone as early versions had it (I§2.5). */
async function handlesOf(datastore: Datastore, containers: readonly string[], missing: string[]): Promise<readonly string[]> {
  if (containers.length === 0) return [];
  const ids = (await datastore.handles.list()).map(({ value }) => value.id);
  return containers.flatMap((container) => {
    const found = ids.filter((id) => id === container || id.endsWith(`.${container}`));
    if (found.length === 0) missing.push(`container ${container} holds no address`);
    return found;
  });
}

function releasedOf({ address, handle, activeOwner }: HeldAddress): Released {
  const { pod, namespace, node } = activeOwner;
  const parts = [pod === undefined ? "" : `pod ${namespace}/${pod}`, node === undefined ? "" : `on node ${node}`];
  return { address, handle, holder: parts.filter((part) => part !== "").join(" ") };
}

async function print(
  { json }: ReleaseOptions,
  datastore: Datastore,
  released: readonly Released[],
  missing: readonly string[],
  terminal: Terminal,
): Promise<void> {
  const { green, red, bold, dim } = terminal.colors;
  const users = await endpointNames(
    datastore,
    released.map(({ address }) => address),
  );
  if (json) {
    const list = released.map(({ address, handle }) => ({
      address: formatAddress(address),
      handle,
      endpoint: users?.get(keyOf(address))?.join(", "),
    }));
    terminal.out(stringifyJson({ released: list, notAssigned: missing }, 2));
    return;
  }
  for (const { address, handle, holder } of released) {
    const whose = [handle === undefined ? "" : `handle ${handle}`, holder].filter((part) => part !== "").join(", ");
    terminal.out(`${green("released")} ${bold(formatAddress(address))} ${dim(`(${whose})`)}`);
    const user = users?.get(keyOf(address))?.join(", ");
    if (user !== undefined) note(terminal, `endpoint ${user} still uses ${formatAddress(address)}: delete that container`);
  }
  if (users === undefined && released.length > 0) {
    note(terminal, "whether an endpoint still uses what was released is unknown: this account may not list pods");
  }
  for (const message of missing) terminal.err(`${red("tortiectl:")} ${bold(message)}`);
}
