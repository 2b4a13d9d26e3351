/**
 * Serves IPAM to clients of the REST API (A§2.5): grants addresses of the node's own ranges to a named owner, and releases them only for
 * somebody who can prove to be that owner. Leaves the HTTP statuses of its errors to the server.
 */

import { dumpOf, type GrantRow, type HostScopeDump } from "../../ipam-plugin/host-scope/dump.ts";
import { type GrantFile, type NamedOwner, type Owner, ownerKey } from "../../ipam-plugin/host-scope/grant-directory.ts";
import type { Granted } from "../../ipam-plugin/host-scope/host-scope.ts";
import { familyOf } from "../../ipam-plugin/host-scope/node-record.ts";
import { type Address, type Family, formatAddress, formatPrefix, parseAddress } from "../../lib/addresses/address.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import type { ServedRanges } from "../addresses/ranges/start.ts";
import type { IPAM_OPERATIONS, IpamResponse, IpamStatus } from "./ipam.ts";
import type { NodeAddressing } from "./node.ts";
import type { HandlersOf } from "./operation.ts";

/** What `expiration` gives a client to make an endpoint of its address. */
const EXPIRATION_MS = 600_000;
/** Names of the node's own addresses begin so. */
const RESERVED = "node/";

/** What a client must show of a grant: one of the two. */
export interface Proof {
  readonly owner?: string;
  readonly token?: string;
}

export class IpamService {
  readonly #parts: ServedRanges;

  constructor(parts: ServedRanges) {
    this.#parts = parts;
  }

  /**
   * Answers POST /ipam: grants an address of each family that the node has, or of one; all or none.
   * @param expires the grant ends after ten minutes unless an endpoint has the address
   * @throws TortieError `call-invalid`, `family-disabled`, `addresses-exhausted`, `node-cidr-missing`
   */
  async grant(family: "ipv4" | "ipv6" | undefined, owner: string, expires: boolean): Promise<IpamResponse> {
    const families = family && ([family === "ipv4" ? 4 : 6] as const);
    const lifeMs = expires ? EXPIRATION_MS : undefined;
    return this.#answer(await this.#parts.hostScope().grant({ owner: ownerOf(owner), families, lifeMs }), expires);
  }

  /**
   * Answers POST /ipam/{ip}: grants that address or fails.
   * @throws TortieError `call-invalid`, `address-taken`, `address-outside-pools`, `address-excluded`, `family-disabled`
   */
  async grantAddress(text: string, owner: string): Promise<IpamResponse> {
    const address = parseAddress(text);
    if (address === undefined) throw new TortieError("call-invalid", `Invalid IP address: ${JSON.stringify(text)}`);
    return this.#answer(await this.#parts.hostScope().grant({ owner: ownerOf(owner), addresses: [address] }), false);
  }

  /**
   * Answers DELETE /ipam/{ip}: releases the address, or every address of the owner that the text names.
   * @throws TortieError `address-not-assigned`, `owner-conflict`, `address-taken` while an endpoint has it
   */
  async release(text: string, proof: Proof): Promise<void> {
    const address = parseAddress(text);
    const freed = address === undefined ? await this.#releaseOwner(text) : await this.#releaseAddress(address, proof);
    if (freed.length > 0) return;
    const what = address === undefined ? `Invalid IP address or owner name: ${JSON.stringify(text)}` : `${text} is not granted`;
    throw new TortieError("address-not-assigned", what, { next: "look at GET /v1/ipam, which lists every grant" });
  }

  /** Answers GET /ipam. @throws TortieError `node-cidr-missing` */
  async dump(): Promise<IpamStatus> {
    return ipamStatusOf(await dumpOf(this.#parts.hostScope()));
  }

  /** Shows the ranges of the node as the API does. */
  addressing(): NodeAddressing {
    const record = this.#parts.record();
    const of = (family: Family) => {
      const found = record && familyOf(record, family);
      if (found === undefined) return undefined;
      const { cidr, source, router } = found;
      return { enabled: true, "alloc-range": formatPrefix(cidr), source, ip: router && formatAddress(router) };
    };
    return { ipv4: of(4), ipv6: of(6) };
  }

  async #releaseAddress(address: Address, proof: Proof): Promise<readonly Address[]> {
    const { files } = this.#parts.hostScope();
    this.#assertUnused(address);
    const freed = await files.release([address], (grant) => isProved(grant, proof) && !isReserved(grant.owner));
    if (freed.length > 0) return freed;
    const holder = (await files.read(address))?.grant;
    if (holder === undefined) return [];
    throw new TortieError("owner-conflict", `${formatAddress(address)} is granted to another owner`, {
      details: `held by ${ownerKey(holder.owner)}`,
      next: "give the owner of the grant, or its token",
    });
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

  #answer(granted: readonly Granted[], expires: boolean): IpamResponse {
    const of = (family: Family) => granted.find(({ address }) => address.family === family);
    const [ipv4, ipv6] = [of(4), of(6)];
    const element = (one: Granted | undefined) =>
      one && { ip: formatAddress(one.address), token: one.grant.token, "expiration-uuid": expires ? one.grant.token : undefined };
    return {
      address: {
        ipv4: ipv4 && formatAddress(ipv4.address),
        "ipv4-expiration-uuid": ipv4?.grant.token,
        ipv6: ipv6 && formatAddress(ipv6.address),
        "ipv6-expiration-uuid": ipv6?.grant.token,
      },
      "host-addressing": this.addressing(),
      ipv4: element(ipv4),
      ipv6: element(ipv6),
    };
  }
}

/** @param ipam `undefined` where this node has no range: its addresses come from blocks */
export function ipamHandlers(ipam: IpamService | undefined): HandlersOf<typeof IPAM_OPERATIONS> {
  const service = (): IpamService => {
    if (ipam !== undefined) return ipam;
    throw new TortieError("family-disabled", "this node has no range of its own: its addresses come from blocks of the pools");
  };
  return {
    getIpam: async () => ({ status: 200, body: await service().dump() }),
    postIpam: async ({ query: { family, owner }, headers }) => ({
      status: 201,
      body: await service().grant(family, owner, headers.expiration === "true"),
    }),
    postIpamAddress: async ({ params, query }) => ({ status: 200, body: await service().grantAddress(params.ip, query.owner) }),
    async deleteIpamAddress({ params, query: { owner, token, idempotent } }) {
      try {
        await service().release(params.ip, { owner, token });
      } catch (error) {
        if (!(idempotent === true && error instanceof TortieError && error.word === "address-not-assigned")) throw error;
      }
      return { status: 200 };
    },
  };
}

/** @throws TortieError `call-invalid` */
function ownerOf(name: string): NamedOwner {
  if (name === "") throw new TortieError("call-invalid", "an owner is needed: the parameter owner is missing");
  if (name.startsWith(RESERVED)) throw new TortieError("call-invalid", `owner ${JSON.stringify(name)} is the node's own`);
  return { kind: "name", name };
}

function isProved(grant: GrantFile, { owner, token }: Proof): boolean {
  return (token !== undefined && token === grant.token) || (owner !== undefined && owner === ownerKey(grant.owner));
}

function isReserved(owner: Owner): boolean {
  return owner.kind === "name" && owner.name.startsWith(RESERVED);
}

/** Shows the dump of the node's ranges as the API does (A§4.6). */
function ipamStatusOf({ ranges, grants }: HostScopeDump): IpamStatus {
  return {
    status: ranges.map(({ family, cidr, used, size }) => `IPv${family}: ${used}/${size} allocated from ${cidr}`).join(", "),
    allocations: Object.fromEntries(grants.map(({ address, owner }) => [address, owner])),
    ranges: ranges.map(({ family, ...figures }) => {
      const own = grants.filter((grant) => grant.family === family);
      return {
        family: family === 4 ? "ipv4" : "ipv6",
        ...figures,
        foreign: own.filter(({ isForeign }) => isForeign).length,
        grants: own.map(grantOf),
      };
    }),
  };
}

function grantOf({ address, owner, pod, endpoint, grantedAtMs, expiresAtMs }: GrantRow) {
  return {
    address,
    owner,
    pod,
    endpoint,
    "granted-at": time(grantedAtMs ?? 0),
    "expires-at": expiresAtMs === undefined ? undefined : time(expiresAtMs),
  };
}

function time(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}
