/** The owners of a machine's addresses: the pod it runs in, and the pod it is about to move to (I§1.9). */
import { TortieError } from "../../lib/errors.ts";
import type { WorkloadIdentity } from "../../lib/workload/identity.ts";
import type { Allocator, HeldAddress, OwnerAttributes } from "../allocator/allocator.ts";

export type OwnerKind = "active" | "alternate";

/** Felix promotes an alternate owner in at most five tries (I§1.9), so that nobody loses more often against it. */
const MOST_TRIES = 5;

/**
 * Makes a pod the owner of one kind, whoever was it.
 *
 * @returns the way back, which restores the owner that was replaced if nobody came between; `undefined` when the machine has lost the
 * address meanwhile
 */
export async function takeOwnership(
  allocator: Allocator,
  held: HeldAddress,
  handle: string,
  kind: OwnerKind,
  attributes: OwnerAttributes,
  signal: AbortSignal,
): Promise<(() => Promise<void>) | undefined> {
  try {
    await allocator.setOwnerAttributes(held.address, handle, { [kind]: attributes }, {}, signal);
  } catch (error) {
    if (isOvertaken(error)) return undefined;
    throw error;
  }
  const before = ownerOf(held, kind);
  return async () => {
    try {
      const restored = Object.keys(before).length === 0 ? null : before;
      await allocator.setOwnerAttributes(held.address, handle, { [kind]: restored }, { [kind]: attributes });
    } catch (error) {
      if (!isOvertaken(error)) throw error;
    }
  };
}

/**
 * Takes a pod out of the owners of the machine's addresses, each under the condition that it still is the owner.
 *
 * @returns whether no address has any owner left; `undefined` when the machine holds no address
 * @throws TortieError `owner-conflict` when the owners keep changing
 */
export async function dropOwnership(
  allocator: Allocator,
  handle: string,
  pod: Pick<WorkloadIdentity, "namespace" | "pod">,
  signal: AbortSignal,
): Promise<boolean | undefined> {
  const mine = { namespace: pod.namespace, pod: pod.pod };
  for (let tries = 1; ; tries++) {
    const held = await allocator.addressesByHandle(handle);
    if (held === undefined || held.length === 0) return undefined;
    const owned = held.flatMap((address) => {
      const kind = (["active", "alternate"] as const).find((each) => isOwnedBy(address, each, mine));
      return kind === undefined ? [] : { address, kind };
    });
    // Read again after clearing: of two pods that go at once, the later one sees that nobody is left.
    if (owned.length === 0) return held.every(isOwnerless);
    if (tries > MOST_TRIES) {
      throw new TortieError("owner-conflict", `update conflict: the owners of handle ${handle} changed ${MOST_TRIES} times in a row`);
    }
    for (const { address, kind } of owned) {
      try {
        await allocator.setOwnerAttributes(address.address, handle, { [kind]: null }, { [kind]: mine }, signal);
      } catch (error) {
        if (!isOvertaken(error)) throw error;
      }
    }
  }
}

function isOwnedBy(held: HeldAddress, kind: OwnerKind, pod: OwnerAttributes): boolean {
  return Object.entries(pod).every(([key, value]) => ownerOf(held, kind)[key] === value);
}

function isOwnerless(held: HeldAddress): boolean {
  return Object.keys(held.activeOwner).length === 0 && Object.keys(held.alternateOwner).length === 0;
}

function ownerOf({ activeOwner, alternateOwner }: HeldAddress, kind: OwnerKind): OwnerAttributes {
  return kind === "active" ? activeOwner : alternateOwner;
}

/** Somebody else has changed the owners or released the address: what is there now is theirs to care for. */
function isOvertaken(error: unknown): boolean {
  return error instanceof TortieError && (error.word === "owner-conflict" || error.word === "address-not-assigned");
}
