/** What a handle with a limit (KubeVirt) holds already, and is to keep (I§3.9). */
import { type Family, hostPrefix } from "../../lib/addresses/address.ts";
import type { AssignedAddress } from "./allocator.ts";
import { familyOf } from "./block.ts";
import type { Context } from "./context.ts";
import { settle } from "./handle.ts";
import { addressesByHandle } from "./queries.ts";

/**
 * `count` addresses of the family that the handle holds. When it counts more than it holds, somebody is on the way or has died on
 * it: the counts are set right, and the result is `undefined`, "try again".
 */
export async function reusable(
  context: Context,
  handle: string,
  family: Family,
  count: number,
  signal: AbortSignal | undefined,
): Promise<readonly AssignedAddress[] | undefined> {
  const held = (await addressesByHandle(context, handle))?.filter(({ address }) => address.family === family) ?? [];
  if (held.length >= count) {
    return held
      .slice(0, count)
      .map(({ address, block, sequenceNumber }) => ({ prefix: hostPrefix(address), block, sequenceNumber, isReused: true }));
  }
  const stored = await context.datastore.handles.get(handle);
  for (const cidr of Object.keys(stored?.value.blocks ?? {})) {
    if (familyOf(cidr) === family) await settle(context, handle, cidr, signal);
  }
  return undefined;
}
