/** Writing a block from which addresses are released (I§4.1.2, I§4.2.4). */
import type { Versioned } from "../../lib/datastore/datastore.ts";
import type { Block } from "../../lib/datastore/resources.ts";
import { isEmpty, nextSequence, release } from "./block.ts";
import type { Context, View } from "./context.ts";
import { normalise } from "./cooldown.ts";

/** How ordinals are released. */
export interface OrdinalRelease {
  readonly ordinals: readonly number[];
  /** Sequence number that they get while they cool down. */
  readonly newSequence?: bigint;
  /** Nobody has ever seen the addresses in use: they need no cooldown. */
  readonly neverUsed?: boolean;
}

/** A release that long ago is over, whatever the cooldown. */
const LONG_AGO_MS = 0;

/**
 * Releases ordinals and writes the block at the revision it was read; an empty block without owner goes.
 * @returns the block as it is now
 * @throws DatastoreError `conflict`, `not-found`: nothing was released
 */
export async function releaseOrdinals(
  context: Context,
  view: View,
  { value, revision }: Versioned<Block>,
  { ordinals, newSequence, neverUsed = false }: OrdinalRelease,
): Promise<Block> {
  const { blocks } = context.datastore;
  const cooldown = await view.cooldownForRelease(context.log);
  const now = context.clock.nowMs();
  const changed = normalise(release(value, ordinals, neverUsed ? LONG_AGO_MS : now, newSequence), cooldown, now);
  if (changed.affinity === undefined && isEmpty(changed)) {
    await blocks.delete(value.cidr, revision);
    return changed;
  }
  return (await blocks.update(value.cidr, nextSequence(changed, context.clock.nowNs()), revision)).value;
}
