/** How an endpoint that was registered over the API goes (A§2.7): its interface is its maker's, only the record and our addresses are ours. */
import { type EndpointRecord, isUnfinishedAdd } from "../../handover/record.ts";
import type { EndpointManager } from "./manager.ts";

export interface ForgetParts {
  readonly endpoints: Pick<EndpointManager, "write" | "remove" | "discard" | "retry">;
  /** Gives back an address of this node's range. */
  readonly release: (address: string, token: string) => Promise<void>;
}

/**
 * Forgets an endpoint that was registered (A§2.7): its interface is its maker's, only the record and our addresses are ours.
 * @throws what a release throws: the removal is repeated behind until nothing is left
 */
export async function forgetRegistered(record: EndpointRecord, { endpoints, release }: ForgetParts): Promise<void> {
  // An interrupted registration has taken nothing over: its addresses are still the client's.
  if (isUnfinishedAdd(record)) return endpoints.discard(record);
  const begun = await endpoints.write({ ...record, phase: "deleting:begun" });
  try {
    for (const { address, grant, token } of begun.addresses) {
      if (grant === "file" && token !== undefined) await release(address, token);
    }
  } catch (error) {
    await endpoints.retry(begun, error);
    throw error;
  }
  await endpoints.remove(begun);
}
