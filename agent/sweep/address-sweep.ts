/**
 * Addresses that are allocated and not used (A§8.1): released by the store's own release when two looks, at least a minute apart,
 * find nothing that stands for them, and neither does a third one under the attachment's lock. A look that fails says nothing.
 */
import { formatAddress } from "../../lib/addresses/address.ts";
import { Observations } from "../../lib/resident/observations.ts";
import type { Clock } from "../../lib/system/waiting.ts";
import { LEAST_BETWEEN_MS } from "./sweep.ts";
import { type Holder, isHeldByPod, Witnesses, type WitnessParts } from "./witnesses.ts";

/** Younger ones may belong to an ADD that is under way (A§8.1). */
const YOUNG_MS = 600_000;

export interface Allocated extends Holder {
  /** The same at two looks for the same allocation only. */
  readonly key: string;
  /** Milliseconds since 1970; `undefined` where the store does not say. */
  readonly sinceMs: number | undefined;
  /** Releases this allocation and nothing that was allocated since. @returns whether it was still there @throws Error */
  release(): Promise<boolean>;
}

export interface SweptStore {
  /** Of the addresses that it holds: in logs, and as the kind of the metric. */
  readonly kind: "grant-without-endpoint" | "allocation-without-endpoint";
  /** What containers of this node hold. @throws Error */
  list(): Promise<readonly Allocated[]>;
}

export interface AddressSweepOptions {
  readonly clock: Clock;
  /** The restore has ended: every endpoint that there is, is known. */
  readonly isRestored: () => boolean;
  readonly store: SweptStore;
  readonly witnesses: WitnessParts;
  /** @returns `undefined` while a plugin works on the container */
  readonly tryLock: (holder: Holder) => Disposable | undefined;
  /** Called for what was released. */
  readonly onReleased: (kind: SweptStore["kind"], what: string, count: number) => void;
  /** Called at the end of each look with the pods whose annotations were not read to their end: what was given to them is kept. */
  readonly onUnread: (kind: SweptStore["kind"], pods: readonly string[]) => void;
}

export class AddressSweep {
  readonly #options: AddressSweepOptions;
  readonly #seen: Observations;
  /** Releases of the present look that failed. */
  #failures: unknown[] = [];

  constructor(options: AddressSweepOptions) {
    this.#options = options;
    this.#seen = new Observations(options.clock);
  }

  /** One look at the whole store. @throws Error when a witness cannot be read, or, at the end, the first release that failed */
  async run(signal: AbortSignal): Promise<void> {
    const { isRestored, store, witnesses, onUnread } = this.#options;
    if (!isRestored() || witnesses.pods?.isComplete === false) return this.#seen.forget();
    this.#failures = [];
    try {
      // The allocations first: what is made after them is not judged by the witnesses.
      const allocated = await store.list();
      const seen = new Witnesses(witnesses);
      for (const one of allocated) {
        // Of a look that was cut short nothing may be left for the next one.
        if (signal.aborted) return this.#seen.forget();
        if (this.#isYoung(one) || seen.mayUse(one)) continue;
        const sinceMs = one.sinceMs === undefined ? YOUNG_MS : LEAST_BETWEEN_MS;
        if (this.#seen.see(one.key, sinceMs)) await this.#release(one);
      }
      this.#seen.endLook();
      onUnread(store.kind, seen.unread);
    } catch (error) {
      this.#seen.forget();
      throw error;
    }
    // The look was whole all the same.
    if (this.#failures.length > 0) throw this.#failures[0];
  }

  #isYoung({ sinceMs }: Allocated): boolean {
    return sinceMs !== undefined && this.#options.clock.date().getTime() - sinceMs < YOUNG_MS;
  }

  /** @returns whether the release succeeded, and there was something to release */
  async #attempt(release: () => Promise<boolean>): Promise<boolean> {
    try {
      return await release();
    } catch (error) {
      this.#failures.push(error);
      return false;
    }
  }

  /** Under the lock everything is looked at again: a plugin may have come between. */
  async #release(allocated: Allocated): Promise<void> {
    const { store, witnesses, tryLock, onReleased } = this.#options;
    using lock = tryLock(allocated);
    if (lock === undefined || (await isHeldByPod(allocated, witnesses.pods))) return;
    if (new Witnesses(witnesses).mayUse(allocated) || !(await this.#attempt(() => allocated.release()))) return;
    const { addresses, network, containerId, ifname } = allocated;
    const whose = `network ${network}, container ${containerId}${ifname === undefined ? "" : `, interface ${ifname}`}`;
    const what = `${addresses.map(formatAddress).join(", ")} of ${whose}: no endpoint, no link, no record and no pod has it`;
    onReleased(store.kind, what, addresses.length);
  }
}
