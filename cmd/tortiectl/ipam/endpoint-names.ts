/** The endpoints that use an address. In a cluster this needs the right to list pods, which the plugins' account lacks. */
import { addressesOf, keyOf } from "../../../doctor/snapshot.ts";
import type { Address } from "../../../lib/addresses/address.ts";
import type { Datastore } from "../../../lib/datastore/datastore.ts";
import { isDatastoreFailure } from "../../../lib/datastore/errors.ts";

/**
 * Names of the endpoints that use each of the addresses, by `keyOf`; unused addresses are left out.
 *
 * @returns `undefined` when the account may not list endpoints
 */
export async function endpointNames(
  { endpoints }: Datastore,
  addresses: readonly Address[],
): Promise<ReadonlyMap<string, readonly string[]> | undefined> {
  const wanted = new Set(addresses.map(keyOf));
  const names = new Map<string, string[]>();
  try {
    for (const { value } of await endpoints.list()) {
      for (const key of new Set(addressesOf(value).map(keyOf))) {
        if (wanted.has(key)) names.set(key, [...(names.get(key) ?? []), `${value.namespace}/${value.name}`]);
      }
    }
  } catch (error) {
    if (isDatastoreFailure(error, "unauthorized")) return undefined;
    throw error;
  }
  return names;
}
