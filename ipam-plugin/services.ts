/** The effects of the IPAM plugin's verbs, so that the main plugin can hand over a datastore that is open already, and tests their own. */
import type { Environment } from "../lib/cni/environment.ts";
import type { Datastore } from "../lib/datastore/datastore.ts";
import type { NamespacedName } from "../lib/kubernetes/objects.ts";
import type { Logger } from "../lib/log/logger.ts";
import { podEndpointKey } from "../lib/workload/endpoint.ts";
import { Allocator, type Clock } from "./allocator/allocator.ts";
import { sleep } from "./allocator/operation.ts";
import { takeNodeLock } from "./node-lock.ts";

export interface IpamServices {
  readonly datastore: Datastore;
  readonly allocator: Allocator;
  /** Name of this node. */
  readonly node: string;
  readonly env: Environment;
  readonly log: Pick<Logger, "info" | "error" | "writeNow">;
  readonly clock: Clock;
  /** Aborts when whoever asked wants no answer any more; what was taken is given back all the same. */
  readonly signal: AbortSignal;
  /** Takes the node's lock; disposing gives it back. */
  readonly lock: typeof takeNodeLock;
  /** A signal that aborts after so many milliseconds. */
  readonly deadline: (milliseconds: number) => AbortSignal;
  /** Waits; an abort ends it early. */
  readonly sleep: (milliseconds: number, signal: AbortSignal) => Promise<void>;
  /**
   * Blanks the annotations of a pod that name the addresses of this container; does nothing where no pod says whose they are.
   * @throws DatastoreError
   */
  readonly clearAnnotations: (pod: NamespacedName, containerId: string) => Promise<unknown>;
  /** The file that says that this node's affinities have their labels (label-upgrade.ts). */
  readonly upgradeMarker: string;
}

/** Calico's own marker, so that neither of us repeats what the other has done. */
const UPGRADE_MARKER = "/var/run/calico/cni/ipam_upgraded";

/** What must be given; the rest has the system's own. */
export type IpamServicesInput = Pick<IpamServices, "datastore" | "node" | "env" | "log"> & Partial<IpamServices>;

export function createIpamServices(input: IpamServicesInput): IpamServices {
  const clock = input.clock ?? systemClock;
  return {
    clock,
    signal: new AbortController().signal,
    lock: takeNodeLock,
    deadline: (milliseconds) => AbortSignal.timeout(milliseconds),
    sleep,
    clearAnnotations: async (pod, containerId) => {
      const { records, traits } = input.datastore;
      if (traits.endpointsAre === "annotations") await records.clear(podEndpointKey(input.node, pod), containerId);
    },
    upgradeMarker: UPGRADE_MARKER,
    ...input,
    allocator: input.allocator ?? new Allocator({ datastore: input.datastore, clock, log: (message) => input.log.error(message) }),
  };
}

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  // The digits below a millisecond only have to differ from one block and one address to the next.
  nowNs: () => BigInt(Date.now()) * 1_000_000n + (process.hrtime.bigint() % 1_000_000n),
};
