/** Questions of ADD and CHECK about network policy. The agent answers from its packet filter; elsewhere there is nothing to wait for. */
import type { Address } from "../lib/addresses/address.ts";
import type { Labels } from "../policy/model.ts";

/** An attachment whose addresses are known and whose link is about to be made. */
export interface NewEndpoint {
  readonly hostInterface: string;
  readonly addresses: readonly Address[];
  /** `undefined` for a container that is no pod. */
  readonly pod: NewPod | undefined;
}

export interface NewPod {
  readonly namespace: string;
  readonly name: string;
  /** Of the object that the ADD has read at the API server; `undefined`: it has read none, and there may be none. */
  readonly uid: string | undefined;
  /** The UID by which the runtime knows the pod: a static pod's mirror may be replaced with another UID. */
  readonly runtimeUid: string | undefined;
  /** What the runtime itself says of the pod: it counts where no API server knows it. */
  readonly labels: Labels;
}

export interface CallPolicy {
  /**
   * Tells of an attachment before its link comes up, so that its policy can be made meanwhile.
   * @param signal ends what waits: nobody wants the attachment any more
   * @returns what takes back what was told: the attachment does not come
   * @throws TortieError `policy-not-ready`
   */
  admit(endpoint: NewEndpoint, signal: AbortSignal): Promise<AsyncDisposable>;
  /**
   * Waits until the packet filter judges the endpoint as its policies say.
   * @param hostInterface as the link was named
   * @throws TortieError `policy-not-ready` naming what is missing; the signal's reason
   */
  ready(hostInterface: string, signal: AbortSignal): Promise<void>;
  /** Says in words what the packet filter lacks of an attachment that is there. */
  differences(hostInterface: string): readonly string[];
}

const NOTHING_TO_TAKE_BACK: AsyncDisposable = { [Symbol.asyncDispose]: async () => {} };

/** Nobody enforces policy on this node, or not Tortie. */
export const NO_POLICY: CallPolicy = { admit: async () => NOTHING_TO_TAKE_BACK, ready: async () => {}, differences: () => [] };

/** Says what CHECK finds of a pod that nobody has opened. */
export function closedEnd(hostInterface: string): string {
  return `host packet filter: wanted the policy of ${hostInterface}, found none: the pod reaches nobody but this node`;
}
