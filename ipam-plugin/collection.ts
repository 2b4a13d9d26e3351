/** What a process that serves many calls adds to a GC: others are added while it runs, which the specification of CNI leaves to runtimes. */
import type { ValidAttachment } from "../lib/cni/protocol.ts";

/** Whose link or addresses a GC is about to remove. */
export interface CollectedOwner {
  readonly containerId: string;
  /** Absent: all interfaces of the container. */
  readonly interfaceName?: string;
}

export interface Collection {
  /** Attachments of the network that have an operation under way now, or whose ADD has come since the GC began. */
  inUse(): readonly ValidAttachment[];
  /**
   * Removes something of an attachment that is not in use. An ADD of the container that comes meanwhile waits for it.
   * @returns false: it is in use, and nothing was done @throws what `work` throws
   */
  remove(owner: CollectedOwner, work: () => Promise<void>): Promise<boolean>;
}

/** Of a process that serves one call: nothing else is under way that it could know of. */
export const LONE_COLLECTION: Collection = {
  inUse: () => [],
  remove: async (_, work) => {
    await work();
    return true;
  },
};
