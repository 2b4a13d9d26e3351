/**
 * Compares what endpoints bear with what stores and grant files say is theirs (A§7.3). An address that a container uses and that is
 * granted to nobody, or to somebody else, is reported with what to do; nothing is given, taken or changed for it.
 */
import { messageOf } from "../../lib/errors/errors.ts";
import { type GrantWitness, lostAddresses } from "../endpoints/granted-addresses.ts";
import { type EndpointRecord, isCommitted, type RecordedAddress } from "../endpoints/record/endpoint-record.ts";
import type { GrantLook, Holding } from "./grant-look.ts";

/** Endpoints a look asks the stores about again, one by one: a node that lost all of its blocks must not ask for each of them at once. */
const MOST_ASKED = 32;

export type LostKind = "address-lost" | "address-conflict";

export interface ComparisonOptions {
  /** The restore has ended: every endpoint that there is, is known. */
  readonly isRestored: () => boolean;
  readonly records: () => readonly EndpointRecord[];
  /** Begins a look. */
  readonly look: () => Pick<GrantLook, "holding">;
  /** What is said of an endpoint is what this says when it is asked for that one alone. */
  readonly witness: GrantWitness;
  /** Told at each look of an endpoint that bears what is not granted to it. */
  readonly onLost: (id: number, kind: LostKind, what: string) => void;
  /** Told of an endpoint that has everything. */
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

  /** One look at every endpoint. @throws Error when one could not be compared, after the others were */
  async run(signal: AbortSignal): Promise<void> {
    const { isRestored, records, look: begin, onHeld } = this.#options;
    if (!isRestored()) return;
    const look = begin();
    const failures: string[] = [];
    const suspects: Suspect[] = [];
    for (const record of records().filter(isCommitted)) {
      // Calls that arrived meanwhile come first.
      await new Promise((resolve) => setImmediate(resolve));
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

/** What another plugin granted is that plugin's to know, and asking starts a program each time. */
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
