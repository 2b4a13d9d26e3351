/**
 * The addresses of an endpoint, proven to be granted to it (design, invariant 16). A record says what was granted once; an address may have
 * been released since by a DEL or GC beside the agent, by a controller or by hand, and be another container's by now.
 */

import type { EndpointRecord, RecordedAddress } from "../../handover/record.ts";
import { TortieError } from "../../lib/errors/errors.ts";

export interface GrantWitness {
  /** What the store, the grant file or the IPAM plugin says now. @throws Error when it cannot be asked */
  isGranted(record: EndpointRecord, address: RecordedAddress): Promise<boolean>;
}

/** Whoever makes a link with recorded addresses takes this, and only `prove` makes it. */
export class GrantedAddresses {
  readonly addresses: readonly string[];

  private constructor(addresses: readonly string[]) {
    this.addresses = addresses;
  }

  /** @throws TortieError `address-lost` naming every address that is not granted; what the witness throws */
  static async prove(record: EndpointRecord, witness: GrantWitness): Promise<GrantedAddresses> {
    const lost = await lostAddresses(record, witness);
    if (lost.length === 0) return new GrantedAddresses(record.addresses.map(({ address }) => address));
    throw new TortieError("address-lost", `endpoint ${record.id}: ${lost.join(", ")} not granted to it any more, and not used again`);
  }
}

/** The addresses of a record that are not granted to its endpoint any more. @throws what the witness throws */
export async function lostAddresses(record: EndpointRecord, witness: GrantWitness): Promise<readonly string[]> {
  const lost: string[] = [];
  for (const recorded of record.addresses) {
    if (recorded.isUngranted !== true && !(await witness.isGranted(record, recorded))) lost.push(recorded.address);
  }
  return lost;
}
