/** Writing a block from which addresses are released (I§4.1.2, I§4.2.4). */
import type { Versioned } from "../../lib/datastore/datastore.ts";
import type { Block } from "../../lib/datastore/resources.ts";
import { isEmpty, nextSequence, release } from "./block.ts";
import type { Context, View } from "./context.ts";
import { normalise } from "./cooldown.ts";

/**
 * Releases ordinals and writes the block at the revision it was read; an empty block without owner goes.
 * @param newSequence sequence number that the released ordinals get while they cool down
 * @returns the block as it is now
 * @throws DatastoreError `conflict`, `not-found`: nothing was released
 */
export async function releaseOrdinals(
  context: Context,
  view: View,
  { value, revision }: Versioned<Block>,
  ordinals: readonly number[],
  newSequence?: bigint,
): Promise<Block> {
  const { blocks } = context.datastore;
  const { ipCooldownSeconds } = await view.configuration();
  const now = context.clock.nowMs();
  const changed = normalise(release(value, ordinals, now, newSequence), ipCooldownSeconds, now);
  if (changed.affinity === undefined && isEmpty(changed)) {
    await blocks.delete(value.cidr, revision);
    return changed;
  }
  return (await blocks.update(value.cidr, nextSequence(changed, context.clock.nowNs()), revision)).value;
}
