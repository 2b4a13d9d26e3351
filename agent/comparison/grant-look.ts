/**
 * Who holds recorded addresses, as one look at the stores and grant files reads it: each block once, whichever node it belongs to, and
 * pools from memory where a store has one. What it finds missing is asked for again before anything is said of it (comparison.ts).
 */

import { ordinalOf, prefixOf } from "../../ipam-plugin/allocator/block.ts";
import { heldAt } from "../../ipam-plugin/allocator/lookup.ts";
import type { Operation } from "../../ipam-plugin/allocator/operation.ts";
import { blockPrefixOf, poolOf, usable } from "../../ipam-plugin/allocator/pools.ts";
import type { HeldAddress } from "../../ipam-plugin/allocator/types.ts";
import { ownerKey } from "../../ipam-plugin/host-scope/grant.ts";
import type { GrantFiles } from "../../ipam-plugin/host-scope/grant-files.ts";
import type { IpamNode } from "../../ipam-plugin/node.ts";
import { type Address, formatAddress, formatPrefix, parseAddress } from "../../lib/addresses/address.ts";
import type { Versioned } from "../../lib/datastore/datastore.ts";
import type { Block } from "../../lib/datastore/resources.ts";
import type { EndpointRecord, RecordedAddress } from "../endpoints/record/endpoint-record.ts";

/** `holder` in words; absent where nobody has the address. */
export interface Holding {
  readonly isTheirs: boolean;
  readonly holder?: string;
}

export interface GrantLookParts {
  /** The allocator and store of the record's network; `undefined` where it has no network configuration. @throws Error */
  readonly ipamOf: (record: EndpointRecord) => Promise<IpamNode> | undefined;
  readonly files: () => Pick<GrantFiles, "read">;
}

const NOBODY: Holding = { isTheirs: false };

export class GrantLook {
  readonly #parts: GrantLookParts;
  readonly #stores = new Map<IpamNode, BlockLook>();

  constructor(parts: GrantLookParts) {
    this.#parts = parts;
  }

  /** @param isFileTheirs whether the grant file's owner or token is the endpoint's @throws Error when it cannot be found out */
  async holding(record: EndpointRecord, recorded: RecordedAddress): Promise<Holding> {
    const address = parseAddress(recorded.address);
    if (address === undefined) return NOBODY;
    return recorded.grant === "file" ? this.#fileHolding(record, recorded, address) : this.#blockHolding(record, recorded, address);
  }

  async #fileHolding({ attachment }: EndpointRecord, { token }: RecordedAddress, address: Address): Promise<Holding> {
    const found = await this.#parts.files().read(address);
    if (found === undefined) return NOBODY;
    if (found.grant === undefined) return { isTheirs: false, holder: "somebody whose grant file cannot be understood" };
    const { network, containerId, ifname: interfaceName } = attachment;
    const own = ownerKey({ kind: "attachment", network, containerId, interfaceName });
    const holder = ownerKey(found.grant.owner);
    return { isTheirs: found.grant.token === token || holder === own, holder };
  }

  async #blockHolding(record: EndpointRecord, { handle }: RecordedAddress, address: Address): Promise<Holding> {
    const opening = this.#parts.ipamOf(record);
    if (opening === undefined || handle === undefined) return NOBODY;
    const ipam = await opening;
    const store = this.#stores.get(ipam) ?? new BlockLook(ipam);
    this.#stores.set(ipam, store);
    const held = await store.holder(address, handle);
    return held === undefined ? NOBODY : { isTheirs: held.handle === handle, holder: wordsOf(held) };
  }
}

/** The blocks of one store. */
class BlockLook {
  readonly #operation: Operation;
  readonly #blocks = new Map<string, Promise<Versioned<Block> | undefined>>();

  constructor({ allocator }: IpamNode) {
    this.#operation = allocator.begin({ mayBeOld: true });
  }

  /** By the address's pool; where that is gone, by the blocks of the handle. @throws DatastoreError */
  async holder(address: Address, handle: string): Promise<HeldAddress | undefined> {
    const pool = poolOf(usable(await this.#operation.pools()), address);
    const cidrs = pool === undefined ? await this.#blocksOf(handle) : [formatPrefix(blockPrefixOf(pool, address))];
    for (const cidr of cidrs) {
      const ordinal = ordinalOf(prefixOf(cidr), address);
      const block = ordinal === undefined ? undefined : await this.#block(cidr);
      if (block !== undefined && ordinal !== undefined) return heldAt(block, ordinal);
    }
    return undefined;
  }

  async #blocksOf(handle: string): Promise<readonly string[]> {
    return Object.keys((await this.#operation.datastore.handles.get(handle))?.value.blocks ?? {});
  }

  #block(cidr: string): Promise<Versioned<Block> | undefined> {
    const reading = this.#blocks.get(cidr) ?? this.#operation.datastore.blocks.get(cidr);
    this.#blocks.set(cidr, reading);
    return reading;
  }
}

function wordsOf({ handle, activeOwner: { namespace, pod, node }, address }: HeldAddress): string {
  const whose = pod === undefined ? "" : ` of pod ${namespace}/${pod}`;
  return `handle ${handle ?? `without a name at ${formatAddress(address)}`}${whose}${node === undefined ? "" : ` on node ${node}`}`;
}
