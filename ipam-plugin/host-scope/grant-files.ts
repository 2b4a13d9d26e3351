/**
 * Grants on the port `GrantDirectory`: what each change is made of, and in which order. Granting is one link(2); everything that takes a
 * grant away or changes it happens under the lock and looks at the grant again first (A§4.4).
 */
import { type Address, type Family, formatAddress, parseAddress } from "../../lib/addresses/address.ts";
import { decodeGrant, draftTime, encodeGrant, type GrantDirectory, type GrantFile, type Owner } from "./grant-directory.ts";

/** Describes an address that is granted. */
export interface Holding {
  readonly address: Address;
  /** `undefined` when the file cannot be read: the address stays granted. */
  readonly grant: GrantFile | undefined;
}

/** Has what the names in the directory say; no file is opened for it. */
export interface Listing {
  readonly granted: readonly Address[];
  /** Address → time of its latest release in milliseconds. */
  readonly released: ReadonlyMap<bigint, number>;
  /** Names without a meaning: drafts of processes that died, releases whose cooldown is over. */
  readonly stale: readonly string[];
}

/** Limits the life of a draft: writing takes a millisecond, and an older one has lost its process. */
const DRAFT_LIFE_MS = 60_000;
const RELEASED = /^(.+)\.released-(\d+)$/;

export class GrantFiles {
  readonly #directory: GrantDirectory;
  readonly #nowMs: () => number;
  readonly #cooldownMs: number;

  constructor(directory: GrantDirectory, nowMs: () => number, cooldownMs: number) {
    this.#directory = directory;
    this.#nowMs = nowMs;
    this.#cooldownMs = cooldownMs;
  }

  async list(family: Family): Promise<Listing> {
    const granted: Address[] = [];
    const released = new Map<bigint, number>();
    const stale: string[] = [];
    const now = this.#nowMs();
    for (const name of await this.#directory.list(family)) {
      const address = parseAddress(name);
      if (address !== undefined) {
        granted.push(address);
        continue;
      }
      const [, text = "", time = ""] = RELEASED.exec(name) ?? [];
      const former = parseAddress(text);
      // A clock that was set back must not keep an address for years.
      if (former !== undefined && Math.abs(now - Number(time)) < this.#cooldownMs) {
        released.set(former.value, Math.max(Number(time), released.get(former.value) ?? 0));
      } else if (former !== undefined || now - (draftTime(name) ?? now) > DRAFT_LIFE_MS) stale.push(name);
    }
    return { granted, released, stale };
  }

  async read(address: Address): Promise<Holding | undefined> {
    const text = await this.#directory.read(address.family, formatAddress(address));
    return text === undefined ? undefined : { address, grant: decodeGrant(text) };
  }

  /** Reads every grant of a family, one after the other. */
  async holdings(family: Family): Promise<readonly Holding[]> {
    const found: Holding[] = [];
    for (const address of (await this.list(family)).granted) {
      const holding = await this.read(address);
      if (holding !== undefined) found.push(holding);
    }
    return found;
  }

  /** Does the compare-and-swap of host scope. @returns whether the address is this grant's now */
  async create(address: Address, grant: GrantFile): Promise<boolean> {
    const { family } = address;
    const draft = this.#directory.draftName();
    await this.#directory.write(family, draft, encodeGrant(grant));
    try {
      return await this.#directory.link(family, draft, formatAddress(address));
    } finally {
      await this.#directory.remove(family, draft);
    }
  }

  /**
   * Turns a grant with a time limit into one that stays with its new owner (A§2.5). Asks under the lock, which whatever releases a
   * grant takes too.
   * @returns whether the address was still granted with this token
   */
  async confirm(address: Address, token: string, owner: Owner): Promise<boolean> {
    const { family } = address;
    using _lock = await this.#directory.lock();
    const grant = (await this.read(address))?.grant;
    if (grant?.token !== token) return false;
    const { expiresAtMs: _, ...lasting } = grant;
    const draft = this.#directory.draftName();
    await this.#directory.write(family, draft, encodeGrant({ ...lasting, owner }));
    return this.#directory.rename(family, draft, formatAddress(address));
  }

  /**
   * Takes the addresses from those who hold them, if they still do.
   * @param isMeant asked under the lock
   * @param cools false for an address that cannot have been used yet: it is free at once
   * @returns the addresses that are free now
   */
  async release(addresses: readonly Address[], isMeant: (grant: GrantFile) => boolean, cools = true): Promise<readonly Address[]> {
    if (addresses.length === 0) return [];
    const freed: Address[] = [];
    using _lock = await this.#directory.lock();
    for (const address of addresses) {
      const grant = (await this.read(address))?.grant;
      if (grant === undefined || !isMeant(grant)) continue;
      const name = formatAddress(address);
      if (cools && this.#cooldownMs > 0) await this.#directory.rename(address.family, name, `${name}.released-${this.#nowMs()}`);
      else await this.#directory.remove(address.family, name);
      freed.push(address);
    }
    return freed;
  }

  /** Removes the names without a meaning. */
  async tidy(family: Family): Promise<void> {
    for (const name of (await this.list(family)).stale) await this.#directory.remove(family, name);
  }
}
