/**
 * Compares what endpoints bear with what stores and grant files say is theirs (A§7.3). An address that a container uses and that is
 * granted to nobody, or to somebody else, is reported with what to do; nothing is given, taken or changed for it.
 */
import { type EndpointRecord, isCommitted, type RecordedAddress } from "../../handover/record.ts";
import { ordinalOf, prefixOf } from "../../ipam-plugin/allocator/block.ts";
import { heldAt } from "../../ipam-plugin/allocator/lookup.ts";
import type { Operation } from "../../ipam-plugin/allocator/operation.ts";
import { blockPrefixOf, poolOf, usable } from "../../ipam-plugin/allocator/pools.ts";
import type { HeldAddress } from "../../ipam-plugin/allocator/types.ts";
import type { IpamHost } from "../../ipam-plugin/host.ts";
import { ownerKey } from "../../ipam-plugin/host-scope/grant-directory.ts";
import type { GrantFiles } from "../../ipam-plugin/host-scope/grant-files.ts";
import { type Address, formatAddress, formatPrefix, parseAddress } from "../../lib/addresses/address.ts";
import type { Versioned } from "../../lib/datastore/datastore.ts";
import type { Block } from "../../lib/datastore/resources.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import { nextTurn } from "../../lib/system/waiting.ts";
import { type GrantWitness, lostAddresses } from "../endpoints/mend-link.ts";
import type { RestoredEndpoints } from "../endpoints/start.ts";
import { addressFinding } from "../observe/health.ts";
import type { AgentContext } from "../start/context.ts";

/** Endpoints a look asks the stores about again, one by one: a node that lost all of its blocks must not ask for each of them at once. */
const MOST_ASKED = 32;

type LostKind = "address-lost" | "address-conflict";

interface ComparisonOptions {
  /** The restore has ended, so that every endpoint is known. */
  readonly isRestored: () => boolean;
  readonly records: () => readonly EndpointRecord[];
  /** Begins a look. */
  readonly look: () => Pick<GrantLook, "holding">;
  /** What is said of an endpoint is what this says when it is asked for that one alone. */
  readonly witness: GrantWitness;
  /** Called at each look for an endpoint that bears what is not granted to it. */
  readonly onLost: (id: number, kind: LostKind, what: string) => void;
  /** Called for an endpoint that has everything. */
  readonly onHeld: (id: number) => void;
}

interface Suspect {
  readonly record: EndpointRecord;
  /** Addresses that the look found elsewhere, and who has each. */
  readonly missing: ReadonlyMap<string, Holding>;
}

export class AddressComparison {
  readonly #options: ComparisonOptions;
  /** The endpoint that was asked about last: the next look goes on behind it. */
  #lastAsked = 0;

  constructor(options: ComparisonOptions) {
    this.#options = options;
  }

  /** Looks at every endpoint once. @throws Error when one could not be compared, after the others were */
  async run(signal: AbortSignal): Promise<void> {
    const { isRestored, records, look: begin, onHeld } = this.#options;
    if (!isRestored()) return;
    const look = begin();
    const failures: string[] = [];
    const suspects: Suspect[] = [];
    for (const record of records().filter(isCommitted)) {
      // Calls that arrived meanwhile come first.
      await nextTurn();
      if (signal.aborted) return;
      try {
        const missing = await missingOf(record, look);
        if (missing.size > 0) suspects.push({ record, missing });
        else onHeld(record.id);
      } catch (error) {
        failures.push(`endpoint ${record.id}: ${messageOf(error)}`);
      }
    }
    for (const suspect of this.#inTurn(suspects)) {
      if (signal.aborted) return;
      this.#lastAsked = suspect.record.id;
      try {
        await this.#judge(suspect);
      } catch (error) {
        failures.push(`endpoint ${suspect.record.id}: ${messageOf(error)}`);
      }
    }
    if (failures.length > 0) throw new Error(`${failures.length} endpoints could not be compared with the store: ${failures[0]}`);
  }

  #inTurn(suspects: readonly Suspect[]): readonly Suspect[] {
    const isLater = ({ record }: Suspect) => record.id > this.#lastAsked;
    const others = suspects.filter((suspect) => !isLater(suspect));
    return [...suspects.filter(isLater), ...others].slice(0, MOST_ASKED);
  }

  /** Asks again: the look may have read a block before the endpoint was added, or before it got another address. @throws Error */
  async #judge({ record, missing }: Suspect): Promise<void> {
    const { records, witness, onLost, onHeld } = this.#options;
    const lost = await lostAddresses({ ...record, addresses: record.addresses.filter(isCompared) }, witness);
    const isSame = records().some(({ id, updatedAt, phase }) => id === record.id && updatedAt === record.updatedAt && phase === "ready");
    if (!isSame) return;
    if (lost.length === 0) return onHeld(record.id);
    const holders = lost.flatMap((address) => {
      const { holder, isTheirs = false } = missing.get(address) ?? {};
      return holder === undefined || isTheirs ? [] : `${address} is granted to ${holder}`;
    });
    const whose = `endpoint ${record.id} (${record.pod === undefined ? "" : `pod ${record.pod}, `}container ${record.attachment.containerId})`;
    const kind = holders.length > 0 ? "address-conflict" : "address-lost";
    const cause = holders.length > 0 ? holders.join(", ") : "another container may get it";
    onLost(record.id, kind, `${kind}: ${lost.join(", ")} of ${whose} is not granted to it any more: ${cause}; restart the pod`);
  }
}

/** Leaves out what another plugin granted: only that plugin knows, and asking starts a program each time. */
function isCompared({ grant, isUngranted = false }: RecordedAddress): boolean {
  return grant !== "external" && !isUngranted;
}

async function missingOf(record: EndpointRecord, look: Pick<GrantLook, "holding">): Promise<ReadonlyMap<string, Holding>> {
  const missing = new Map<string, Holding>();
  for (const recorded of record.addresses.filter(isCompared)) {
    const holding = await look.holding(record, recorded);
    if (!holding.isTheirs) missing.set(recorded.address, holding);
  }
  return missing;
}

/** `holder` in words; absent where nobody has the address. */
interface Holding {
  readonly isTheirs: boolean;
  readonly holder?: string;
}

interface GrantLookParts {
  /** The allocator and store of the record's network; `undefined` where it has no network configuration. @throws Error */
  readonly ipamOf: (record: EndpointRecord) => Promise<IpamHost> | undefined;
  readonly files: () => Pick<GrantFiles, "read">;
}

const NOBODY: Holding = { isTheirs: false };

/**
 * Finds out who holds recorded addresses, in one look at the stores and grant files: reads each block once, whichever node it belongs to,
 * and pools from memory where a store has one. What it finds missing is asked for again before it is reported.
 */
export class GrantLook {
  readonly #parts: GrantLookParts;
  readonly #stores = new Map<IpamHost, BlockLook>();

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
    const own = ownerKey({ kind: "attachment", ...attachment });
    const holder = ownerKey(found.grant.owner);
    return { isTheirs: found.grant.token === token || holder === own, holder };
  }

  async #blockHolding(record: EndpointRecord, { handle }: RecordedAddress, address: Address): Promise<Holding> {
    const opening = this.#parts.ipamOf(record);
    if (opening === undefined || handle === undefined) return NOBODY;
    const ipam = await opening;
    const store = this.#stores.getOrInsertComputed(ipam, () => new BlockLook(ipam));
    const held = await store.holder(address, handle);
    return held === undefined ? NOBODY : { isTheirs: held.handle === handle, holder: wordsOf(held) };
  }
}

/** Reads the blocks of one store. */
class BlockLook {
  readonly #operation: Operation;
  readonly #blocks = new Map<string, Promise<Versioned<Block> | undefined>>();

  constructor({ allocator }: IpamHost) {
    this.#operation = allocator.begin({ mayBeOld: true });
  }

  /**
   * Finds the holder by the address's pool; where that is gone or has another block size now, by the blocks of the handle.
   * @throws DatastoreError
   */
  async holder(address: Address, handle: string): Promise<HeldAddress | undefined> {
    const pool = poolOf(usable(await this.#operation.pools()), address);
    const place = pool === undefined ? [] : [formatPrefix(blockPrefixOf(pool, address))];
    for (const cidrs of [async () => place, () => this.#blocksOf(handle)]) {
      for (const cidr of await cidrs()) {
        const ordinal = ordinalOf(prefixOf(cidr), address);
        const block = ordinal === undefined ? undefined : await this.#block(cidr);
        if (block !== undefined && ordinal !== undefined) return heldAt(block, ordinal);
      }
    }
    return undefined;
  }

  async #blocksOf(handle: string): Promise<readonly string[]> {
    return Object.keys((await this.#operation.datastore.handles.get(handle))?.value.blocks ?? {});
  }

  #block(cidr: string): Promise<Versioned<Block> | undefined> {
    return this.#blocks.getOrInsertComputed(cidr, () => this.#operation.datastore.blocks.get(cidr));
  }
}

function wordsOf({ handle, activeOwner: { namespace, pod, node }, address }: HeldAddress): string {
  const whose = pod === undefined ? "" : ` of pod ${namespace}/${pod}`;
  return `handle ${handle ?? `without a name at ${formatAddress(address)}`}${whose}${node === undefined ? "" : ` on node ${node}`}`;
}

const NAME = "compare-addresses";
const INTERVAL_MS = 600_000;
/** Of one look: each of its requests has a limit of its own. */
const DEADLINE_MS = 300_000;

interface ComparedParts extends RestoredEndpoints {
  readonly witness: GrantWitness & { ipamOf(record: EndpointRecord): Promise<IpamHost> | undefined };
  readonly files: () => Pick<GrantFiles, "read">;
}

/** Starts the comparison as a task. @returns what makes the first one, to be called when the restore has ended */
export function startComparison(
  { controllers, health, log }: AgentContext,
  { manager, isRestored, witness, files }: ComparedParts,
): () => void {
  const found = new Map<number, string>();
  const forget = (id: number) => {
    health.health.find(addressFinding(id), undefined);
    return found.delete(id);
  };
  const comparison = new AddressComparison({
    isRestored,
    records: () => manager.list(),
    look: () => new GrantLook({ ipamOf: (record) => witness.ipamOf(record), files }),
    witness,
    onLost(id, kind, what) {
      health.metrics.sweepFound(kind);
      health.health.find(addressFinding(id), what);
      if (found.get(id) === what) return;
      found.set(id, what);
      log.error(what);
      manager.get(id)?.note("Warning", "Other", what);
    },
    onHeld(id) {
      if (!forget(id)) return;
      log.info(`the addresses of endpoint ${id} are granted to it again`);
      manager.get(id)?.note("OK", "Other", "Its addresses are granted to it again");
    },
  });
  manager.onChange((event, { id }) => {
    if (event === "gone") forget(id);
  });
  const run = (signal: AbortSignal) => comparison.run(signal);
  controllers.update(NAME, { run, intervalMs: INTERVAL_MS, isJittered: true, deadlineMs: DEADLINE_MS, quiet: true });
  return () => controllers.trigger(NAME);
}
