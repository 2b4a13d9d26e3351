/**
 * IPAM for clients of the REST API (A§2.5): addresses of the node's own ranges, granted to a named owner, and released only by who can
 * prove to be that owner. The statuses of its errors are in statuses.ts.
 */

import { dumpOf, type HostScopeDump } from "../../ipam-plugin/host-scope/dump.ts";
import { type Grant, type Owner, ownerKey } from "../../ipam-plugin/host-scope/grant.ts";
import type { Granted, GrantRequest, HostScope } from "../../ipam-plugin/host-scope/host-scope.ts";
import { familyOf, type NodeRecord } from "../../ipam-plugin/host-scope/node-record.ts";
import { type Address, type Family, formatAddress, formatPrefix, parseAddress } from "../../lib/addresses/address.ts";
import { TortieError } from "../../lib/errors/errors.ts";

/** What `expiration` gives a client to make an endpoint of its address. */
const EXPIRATION_MS = 600_000;
/** Names of the node's own addresses begin so. */
const RESERVED = "node/";

export interface IpamServiceParts {
  readonly hostScope: () => HostScope;
  readonly record: () => NodeRecord | undefined;
  /** The endpoint that uses an address: its grant cannot be released over the API. */
  readonly endpointOf: (address: Address) => number | undefined;
  /** Milliseconds since 1970. */
  readonly nowMs: () => number;
}

export interface AllocateRequest {
  readonly owner: string;
  /** Absent: each family that the node has. */
  readonly family?: "ipv4" | "ipv6";
  /** The grant ends after ten minutes unless it is confirmed. */
  readonly expires?: boolean;
}

/** What a client must show of a grant: one of the two. */
export interface Proof {
  readonly owner?: string;
  readonly token?: string;
}

/** IPAMAddressResponse of the API. */
export interface IpamAddressAnswer {
  readonly ip: string;
  /** Whoever has it may release the address. */
  readonly token: string;
  /** The token again, when the grant expires. */
  readonly "expiration-uuid"?: string;
}

export interface NodeAddressingElementAnswer {
  readonly enabled: boolean;
  readonly ip?: string;
  readonly "alloc-range": string;
  readonly source: string;
}

export interface NodeAddressingAnswer {
  readonly ipv4?: NodeAddressingElementAnswer;
  readonly ipv6?: NodeAddressingElementAnswer;
}

/** IPAMResponse of the API. */
export interface IpamAnswer {
  readonly address: {
    readonly ipv4?: string;
    readonly "ipv4-expiration-uuid"?: string;
    readonly ipv6?: string;
    readonly "ipv6-expiration-uuid"?: string;
  };
  readonly "host-addressing": NodeAddressingAnswer;
  readonly ipv4?: IpamAddressAnswer;
  readonly ipv6?: IpamAddressAnswer;
}

export class IpamService {
  readonly #parts: IpamServiceParts;

  constructor(parts: IpamServiceParts) {
    this.#parts = parts;
  }

  /**
   * POST /ipam: an address of each family, or of one; all or none.
   * @throws TortieError `call-invalid`, `family-disabled`, `addresses-exhausted`, `node-cidr-missing`
   */
  async allocate({ owner, family, expires = false }: AllocateRequest): Promise<IpamAnswer> {
    const families = family === undefined ? {} : { families: [family === "ipv4" ? 4 : 6] as const };
    return this.#answer(await this.#parts.hostScope().grant({ ...this.#request(owner, expires), ...families }), expires);
  }

  /**
   * POST /ipam/{ip}: that address or an error.
   * @throws TortieError `call-invalid`, `address-taken`, `address-outside-pools`, `address-excluded`, `family-disabled`
   */
  async allocateAddress(text: string, { owner, expires = false }: Omit<AllocateRequest, "family">): Promise<IpamAnswer> {
    const address = parseAddress(text);
    if (address === undefined) throw new TortieError("call-invalid", `Invalid IP address: ${JSON.stringify(text)}`);
    return this.#answer(await this.#parts.hostScope().grant({ ...this.#request(owner, expires), addresses: [address] }), expires);
  }

  /**
   * DELETE /ipam/{ip}: the address, or every address of the owner that the text names.
   * @returns the addresses that are free now
   * @throws TortieError `address-not-assigned`, `release-mismatch`, `address-taken` while an endpoint has it
   */
  async release(text: string, proof: Proof, { isIdempotent = false } = {}): Promise<readonly string[]> {
    const address = parseAddress(text);
    const freed = address === undefined ? await this.#releaseOwner(text) : await this.#releaseAddress(address, proof);
    if (freed.length > 0 || isIdempotent) return freed.map(formatAddress);
    const what = address === undefined ? `Invalid IP address or owner name: ${JSON.stringify(text)}` : `${text} is not granted`;
    throw new TortieError("address-not-assigned", what, { next: "look at GET /v1/ipam, which lists every grant" });
  }

  /**
   * The address has an endpoint from here on, and its grant expires no more.
   * @throws TortieError `address-not-assigned`, `release-mismatch`
   */
  async confirm(address: Address, proof: Proof, endpoint: number): Promise<void> {
    const { files } = this.#parts.hostScope();
    const amended = await files.amend(
      address,
      (grant) => isProved(grant, proof),
      ({ owner, token, grantedAtMs }) => ({ owner, token, grantedAtMs, endpoint }),
    );
    if (amended === undefined) throw await this.#notTheirs(address);
  }

  /** GET /ipam. @throws TortieError `node-cidr-missing` */
  dump(): Promise<HostScopeDump> {
    return dumpOf(this.#parts.hostScope(), this.#parts.nowMs());
  }

  /** The ranges of the node as the API shows them. */
  addressing(): NodeAddressingAnswer {
    const record = this.#parts.record();
    const of = (family: Family): NodeAddressingElementAnswer | undefined => {
      const found = record === undefined ? undefined : familyOf(record, family);
      if (found === undefined) return undefined;
      const { cidr, source, router } = found;
      return { enabled: true, "alloc-range": formatPrefix(cidr), source, ...(router === undefined ? {} : { ip: formatAddress(router) }) };
    };
    const [ipv4, ipv6] = [of(4), of(6)];
    return { ...(ipv4 === undefined ? {} : { ipv4 }), ...(ipv6 === undefined ? {} : { ipv6 }) };
  }

  async #releaseAddress(address: Address, proof: Proof): Promise<readonly Address[]> {
    const { files } = this.#parts.hostScope();
    this.#assertUnused(address);
    const freed = await files.release([address], (grant) => isProved(grant, proof) && !isReserved(grant.owner));
    if (freed.length === 0 && (await files.read(address)) !== undefined) throw await this.#notTheirs(address);
    return freed;
  }

  async #releaseOwner(name: string): Promise<readonly Address[]> {
    const hostScope = this.#parts.hostScope();
    const held = (await hostScope.holdings()).filter(({ grant }) => grant !== undefined && ownerKey(grant.owner) === name);
    for (const { address } of held) this.#assertUnused(address);
    return hostScope.releaseAll(({ owner }) => ownerKey(owner) === name && !isReserved(owner));
  }

  #assertUnused(address: Address): void {
    const endpoint = this.#parts.endpointOf(address);
    if (endpoint === undefined) return;
    throw new TortieError("address-taken", `${formatAddress(address)}: IP is in use by endpoint ${endpoint}`, {
      next: "remove the endpoint, which releases its addresses",
    });
  }

  async #notTheirs(address: Address): Promise<TortieError> {
    const holder = (await this.#parts.hostScope().files.read(address))?.grant;
    if (holder === undefined) return new TortieError("address-not-assigned", `${formatAddress(address)} is not granted`);
    return new TortieError("release-mismatch", `${formatAddress(address)} is granted to another owner`, {
      details: `held by ${ownerKey(holder.owner)}`,
      next: "give the owner of the grant, or its token",
    });
  }

  #request(owner: string, expires: boolean): Pick<GrantRequest, "owner" | "lifeMs"> {
    if (owner === "") throw new TortieError("call-invalid", "an owner is needed: the parameter owner is missing");
    if (owner.startsWith(RESERVED)) throw new TortieError("call-invalid", `owner ${JSON.stringify(owner)} is the node's own`);
    return { owner: { kind: "name", name: owner }, ...(expires ? { lifeMs: EXPIRATION_MS } : {}) };
  }

  #answer(granted: readonly Granted[], expires: boolean): IpamAnswer {
    const of = (family: Family) => granted.find(({ address }) => address.family === family);
    const element = (one: Granted): IpamAddressAnswer => ({
      ip: formatAddress(one.address),
      token: one.grant.token,
      ...(expires ? { "expiration-uuid": one.grant.token } : {}),
    });
    const [ipv4, ipv6] = [of(4), of(6)];
    return {
      address: {
        ...(ipv4 === undefined ? {} : { ipv4: formatAddress(ipv4.address) }),
        ...(ipv4 === undefined || !expires ? {} : { "ipv4-expiration-uuid": ipv4.grant.token }),
        ...(ipv6 === undefined ? {} : { ipv6: formatAddress(ipv6.address) }),
        ...(ipv6 === undefined || !expires ? {} : { "ipv6-expiration-uuid": ipv6.grant.token }),
      },
      "host-addressing": this.addressing(),
      ...(ipv4 === undefined ? {} : { ipv4: element(ipv4) }),
      ...(ipv6 === undefined ? {} : { ipv6: element(ipv6) }),
    };
  }
}

function isProved(grant: Grant, { owner, token }: Proof): boolean {
  return (token !== undefined && token === grant.token) || (owner !== undefined && owner === ownerKey(grant.owner));
}

function isReserved(owner: Owner): boolean {
  return owner.kind === "name" && owner.name.startsWith(RESERVED);
}
