/** Defines what this host can do for the IPAM plugin, apart from any call: an executable builds one, a process of many calls keeps it. */
import type { Datastore } from "../lib/datastore/datastore.ts";
import type { NamespacedName } from "../lib/kubernetes/objects.ts";
import type { Logger } from "../lib/log/logger.ts";
import { SYSTEM_CLOCK } from "../lib/system/waiting.ts";
import { podEndpointKey } from "../lib/workload/endpoint.ts";
import { Allocator, type Clock } from "./allocator/allocator.ts";
import { type Locking, takeNodeLock } from "./node-lock.ts";

export interface IpamHost extends Locking {
  readonly datastore: Datastore;
  readonly allocator: Allocator;
  readonly clock: Clock;
  /** Waits; an abort ends it early. */
  readonly sleep: (milliseconds: number, signal: AbortSignal) => Promise<void>;
  /**
   * Blanks the annotations of a pod that name the addresses of this container; does nothing where no pod says whose they are.
   * @throws DatastoreError
   */
  readonly clearAnnotations: (pod: NamespacedName, containerId: string, nodeName: string) => Promise<unknown>;
  /** Tells whether this process has made the handle, so that the container holds nothing under an older form of it. */
  readonly hasMadeHandle: (handle: string) => boolean;
  /** The file that says that this node's affinities have their labels (`upgradeLabelsOnce`). */
  readonly upgradeMarker: string;
}

/** Calico's own marker, so that neither of us repeats what the other has done. */
const UPGRADE_MARKER = "/var/run/calico/cni/ipam_upgraded";

/** Has what must be given; the rest has the system's own. */
export interface IpamHostInput extends Partial<IpamHost> {
  readonly datastore: Datastore;
  /** Told of problems that no call failed over. */
  readonly log: Pick<Logger, "error">;
}

export function createIpamHost({ log, ...input }: IpamHostInput): IpamHost {
  const clock = input.clock ?? systemClock;
  return {
    clock,
    lock: takeNodeLock,
    deadline: (milliseconds) => AbortSignal.timeout(milliseconds),
    sleep: SYSTEM_CLOCK.sleep,
    clearAnnotations: async (pod, containerId, nodeName) => {
      const { records, traits } = input.datastore;
      if (traits.poolsFrom === "cluster") await records.clear(podEndpointKey(nodeName, pod), containerId);
    },
    hasMadeHandle: () => false,
    upgradeMarker: UPGRADE_MARKER,
    ...input,
    allocator: input.allocator ?? new Allocator({ datastore: input.datastore, clock, log: (message) => log.error(message) }),
  };
}

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  // The digits below a millisecond only have to differ from one block and one address to the next.
  nowNs: () => BigInt(Date.now()) * 1_000_000n + (process.hrtime.bigint() % 1_000_000n),
};
