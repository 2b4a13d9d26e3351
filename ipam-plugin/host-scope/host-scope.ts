/**
 * Gives addresses of one node's own ranges (A§4): both families or none, each by one link(2) of its grant file. The agent and any number of
 * direct-mode plugins may do this at once; none of them needs to know of the others.
 */
import { type Address, contains, type Family, formatAddress, type Prefix } from "../../lib/addresses/address.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { type GrantDirectory, type GrantFile, isSameOwner, type Owner, ownerKey } from "./grant-directory.ts";
import { GrantFiles, type Holding, type Listing } from "./grant-files.ts";
import {
  addressOf,
  Bitmap,
  chooseOffset,
  formatRange,
  type HostRange,
  intervalsWithin,
  type Occupancy,
  offsetOf,
  type Strategy,
} from "./range.ts";

/** Describes addresses inside a range that are never given out (A§4.5). */
export interface Exclusion {
  readonly prefix: Prefix;
  readonly reason: string;
}

/** Says what the node may give out, one range a family at most. */
export interface NodeRanges {
  readonly ranges: readonly HostRange[];
  readonly exclusions: readonly Exclusion[];
}

export interface HostScopeParts {
  readonly directory: GrantDirectory;
  /** Called by each grant, since ranges come late and change. @throws TortieError `node-cidr-missing` */
  readonly ranges: () => NodeRanges;
  readonly strategy: Strategy;
  readonly cooldownMs: number;
  readonly nowMs: () => number;
  /** Numbers in [0, 1). */
  readonly random: () => number;
  readonly newToken: () => string;
}

export interface HostScopeRequest {
  readonly owner: Owner;
  /** An address of each of these; absent: of each family that the node has a range of. */
  readonly families?: readonly Family[];
  /** These instead. */
  readonly addresses?: readonly Address[];
  /** An address outside the node's range will do: a running pod has it (A§1.8). */
  readonly mayBeForeign?: boolean;
  readonly lifeMs?: number;
  readonly endpoint?: number;
}

/** Has an address with the proof that it is ours. */
export interface Granted {
  readonly address: Address;
  readonly grant: GrantFile;
}

export class HostScope {
  readonly files: GrantFiles;
  readonly #parts: HostScopeParts;

  constructor(parts: HostScopeParts) {
    this.#parts = parts;
    this.files = new GrantFiles(parts.directory, parts.nowMs, parts.cooldownMs);
  }

  /** @throws TortieError `node-cidr-missing` */
  ranges(): NodeRanges {
    return this.#parts.ranges();
  }

  /** Lists the ranges as far as they are known. */
  knownRanges(): readonly Prefix[] {
    try {
      return this.ranges().ranges.map(({ cidr }) => cidr);
    } catch (error) {
      if (error instanceof TortieError) return [];
      throw error;
    }
  }

  /**
   * Grants all of them or none, IPv6 first (A§2.5).
   * @throws TortieError `node-cidr-missing`, `family-disabled`, `addresses-exhausted`, `address-outside-pools`, `address-excluded`,
   * `address-taken`
   */
  async grant(request: HostScopeRequest): Promise<readonly Granted[]> {
    const granted: Granted[] = [];
    try {
      if (request.addresses === undefined) {
        for (const range of this.#rangesFor(request.families)) granted.push(await this.#grantAny(range, request));
      } else {
        for (const address of request.addresses) granted.push(await this.#grantThis(address, request));
      }
    } catch (error) {
      // These addresses were never used, so they need no cooldown.
      for (const one of granted) await this.giveBack(one, false);
      throw error;
    }
    return granted;
  }

  /** Releases exactly this grant, and nothing that was granted since. */
  async giveBack({ address, grant }: Granted, cools = true): Promise<void> {
    await this.files.release([address], ({ token }) => token === grant.token, cools);
  }

  /** Lists what an owner holds. */
  async heldBy(owner: Owner): Promise<readonly Holding[]> {
    return (await this.holdings()).filter(({ grant }) => grant !== undefined && isSameOwner(grant.owner, owner));
  }

  async holdings(): Promise<readonly Holding[]> {
    return [...(await this.files.holdings(4)), ...(await this.files.holdings(6))];
  }

  /** Releases every grant that `isMeant` names; what cannot be read stays. @returns the addresses that are free now */
  async releaseAll(isMeant: (grant: GrantFile) => boolean): Promise<readonly Address[]> {
    const candidates = (await this.holdings()).filter(({ grant }) => grant !== undefined && isMeant(grant));
    return this.files.release(
      candidates.map(({ address }) => address),
      isMeant,
    );
  }

  /**
   * Grants whose time is over are released, and files that mean nothing any more removed (A§2.5).
   * @param isUsed an endpoint has the address: its grant does not expire
   * @returns the addresses released
   */
  async expire(isUsed: (address: Address) => boolean = () => false): Promise<readonly Address[]> {
    const now = this.#parts.nowMs();
    const isOver = ({ expiresAtMs }: GrantFile) => expiresAtMs !== undefined && expiresAtMs <= now;
    const over = (await this.holdings()).filter(({ address, grant }) => grant !== undefined && isOver(grant) && !isUsed(address));
    const freed = await this.files.release(
      over.map(({ address }) => address),
      isOver,
    );
    await this.files.tidy(4);
    await this.files.tidy(6);
    return freed;
  }

  /** Tells what of one range is granted and what is not. */
  async occupancy(range: HostRange): Promise<Occupancy> {
    return this.#occupancyOf(range, await this.files.list(range.family));
  }

  #rangesFor(families: readonly Family[] | undefined): readonly HostRange[] {
    const { ranges } = this.ranges();
    const byFamily = (family: Family) => ranges.find((range) => range.family === family);
    const wanted: readonly Family[] = families ?? ranges.map(({ family }) => family);
    return ([6, 4] as const)
      .filter((family) => wanted.includes(family))
      .map((family) => {
        const range = byFamily(family);
        if (range === undefined) throw new TortieError("family-disabled", `this node has no IPv${family} range`);
        return range;
      });
  }

  async #grantAny(range: HostRange, request: HostScopeRequest): Promise<Granted> {
    const { strategy, random } = this.#parts;
    const occupancy = await this.occupancy(range);
    const latest = strategy === "next" ? await this.#latest(range) : undefined;
    for (;;) {
      const offset = chooseOffset({ ...occupancy, latest }, strategy, random);
      if (offset === undefined) throw await this.#exhausted(range);
      const granted = await this.#link(addressOf(range, offset), request);
      if (granted !== undefined) return granted;
      // Another process has taken it: each turn of this loop is an address that some process was granted.
      occupancy.taken.add(offset);
    }
  }

  async #grantThis(address: Address, request: HostScopeRequest): Promise<Granted> {
    if (request.mayBeForeign !== true) this.#assertGrantable(address);
    const granted = await this.#link(address, request);
    if (granted !== undefined) return granted;
    const holder = (await this.files.read(address))?.grant;
    throw new TortieError("address-taken", `${formatAddress(address)} is already allocated`, {
      details: holder && `held by ${ownerKey(holder.owner)}`,
    });
  }

  #assertGrantable(address: Address): void {
    const { ranges, exclusions } = this.ranges();
    const range = ranges.find(({ family }) => family === address.family);
    if (range === undefined) throw new TortieError("family-disabled", `this node has no IPv${address.family} range`);
    if (offsetOf(range, address) === undefined) {
      throw new TortieError(
        "address-outside-pools",
        `${formatAddress(address)} is not in the valid range. The range of valid IPs is ${formatRange(range)}`,
      );
    }
    const excluded = exclusions.find(({ prefix }) => contains(prefix, address));
    if (excluded !== undefined) throw new TortieError("address-excluded", `${formatAddress(address)} is excluded: ${excluded.reason}`);
  }

  async #link(address: Address, { owner, lifeMs, endpoint }: HostScopeRequest): Promise<Granted | undefined> {
    const grantedAtMs = this.#parts.nowMs();
    const grant: GrantFile = {
      owner,
      token: this.#parts.newToken(),
      grantedAtMs,
      expiresAtMs: lifeMs === undefined ? undefined : grantedAtMs + lifeMs,
      endpoint,
    };
    return (await this.files.create(address, grant)) ? { address, grant } : undefined;
  }

  #occupancyOf(range: HostRange, { granted, released }: Listing): Occupancy {
    const { family } = range;
    const cooling = new Map<number, number>();
    for (const [value, releasedMs] of released) {
      const offset = offsetOf(range, { family, value });
      if (offset !== undefined) cooling.set(offset, releasedMs);
    }
    const exclusions = this.ranges().exclusions.map(({ prefix }) => prefix);
    return {
      size: range.size,
      taken: new Bitmap(granted.flatMap((address) => offsetOf(range, address) ?? [])),
      excluded: intervalsWithin(range, exclusions),
      cooling,
      latest: undefined,
    };
  }

  async #latest(range: HostRange): Promise<number | undefined> {
    let latest: { readonly offset: number; readonly ms: number } | undefined;
    for (const { address, grant } of await this.files.holdings(range.family)) {
      const offset = offsetOf(range, address);
      if (offset === undefined || grant === undefined) continue;
      // Of one millisecond's grants the highest is the latest, but for a wrap-around.
      if (latest === undefined || grant.grantedAtMs >= latest.ms) latest = { offset, ms: grant.grantedAtMs };
    }
    return latest?.offset;
  }

  async #exhausted(range: HostRange): Promise<TortieError> {
    const holdings = await this.files.holdings(range.family);
    const used = holdings.filter(({ address }) => offsetOf(range, address) !== undefined).length;
    const owners = largestOwners(holdings);
    return new TortieError("addresses-exhausted", `range is full: ${used} of ${range.size} addresses of ${formatRange(range)} are in use`, {
      next: "give the node a larger range, or find out who holds its addresses",
      ...(owners === "" ? {} : { details: `most are held by ${owners}` }),
    });
  }
}

/** Names the three groups that hold the most: namespaces of pods, networks of other containers, names of clients. */
function largestOwners(holdings: readonly Holding[]): string {
  const counts = new Map<string, number>();
  for (const { grant } of holdings) {
    const group = groupOf(grant?.owner);
    counts.set(group, (counts.get(group) ?? 0) + 1);
  }
  const largest = [...counts].sort(([, one], [, other]) => other - one).slice(0, 3);
  return largest.map(([group, count]) => `${group} (${count})`).join(", ");
}

function groupOf(owner: Owner | undefined): string {
  if (owner === undefined) return "files that cannot be read";
  if (owner.kind === "name") return owner.name;
  return owner.pod === undefined ? `network ${owner.network}` : `namespace ${owner.pod.split("/", 1)[0]}`;
}
