/**
 * Remembers the packets that policy has dropped, the last hundred of each endpoint, and tells whoever follows. Anybody on the network may
 * cause drops, so memory and processor time are bounded: the constants say how.
 */
import type { LoggedPacket } from "../../dataplane/nflog/message.ts";
import type { DropReason } from "../../dataplane/nftables/policy/log-prefix.ts";
import type { Direction } from "../../dataplane/packet-policy.ts";
import type { Clock } from "../../lib/system/waiting.ts";
import { type Drop, type DropWitness, dropOf } from "./drop.ts";
import type { DropHistory, ShownDrops } from "./view.ts";

/** Remembered of one endpoint. */
export const MOST_OF_AN_ENDPOINT = 100;
/** Remembered in all; one is below 2 KiB. The endpoint that has been quiet for the longest time loses its oldest first. */
export const MOST_IN_ALL = 4_000;
/**
 * Looked at in a second, which takes some 75 ms with a thousand policies; further ones are counted as missed. The kernel's own limits are
 * lower unless many endpoints are flooded.
 */
export const MOST_A_SECOND = 500;
const SECOND_MS = 1_000;

export class Drops implements DropHistory {
  readonly #witness: DropWitness;
  readonly #clock: Pick<Clock, "now" | "date">;
  /** By host end; whoever has dropped last stands last. */
  readonly #rings = new Map<string, Drop[]>();
  readonly #listeners = new Set<(drop: Drop) => void>();
  readonly #shown = new Map<string, ShownDrops>();
  #count = 0;
  #missed = 0;
  /** Began a second ago at most, and has so many. */
  #second = { since: Number.NEGATIVE_INFINITY, count: 0 };

  constructor(witness: DropWitness, clock: Pick<Clock, "now" | "date">) {
    this.#witness = witness;
    this.#clock = clock;
  }

  /** Takes what the kernel has logged. */
  take(packets: readonly LoggedPacket[]): void {
    for (const packet of packets) {
      if (!this.#mayLook()) {
        this.#missed++;
        continue;
      }
      const drop = dropOf(packet, this.#clock.date(), this.#witness);
      if (drop === undefined) continue;
      this.#remember(drop);
      this.#countShown(drop);
      for (const listener of this.#listeners) listener(drop);
    }
  }

  /** Counts what the kernel has logged and nobody has seen. */
  miss(count: number): void {
    this.#missed += count;
  }

  recent(hostInterface?: string): readonly Drop[] {
    if (hostInterface !== undefined) return [...(this.#rings.get(hostInterface) ?? [])];
    // The times have the same form and length, so that their texts sort as they do.
    return [...this.#rings.values()].flat().sort((one, other) => (one.time < other.time ? -1 : one.time > other.time ? 1 : 0));
  }

  get missed(): number {
    return this.#missed;
  }

  shown(): readonly ShownDrops[] {
    return [...this.#shown.values()];
  }

  follow(listener: (drop: Drop) => void): () => void {
    // The same function may follow twice.
    const own = (drop: Drop) => listener(drop);
    this.#listeners.add(own);
    return () => this.#listeners.delete(own);
  }

  #mayLook(): boolean {
    const now = this.#clock.now();
    if (now - this.#second.since >= SECOND_MS) this.#second = { since: now, count: 0 };
    return this.#second.count++ < MOST_A_SECOND;
  }

  #remember(drop: Drop): void {
    const ring = this.#rings.get(drop.hostInterface) ?? [];
    this.#rings.delete(drop.hostInterface);
    this.#rings.set(drop.hostInterface, ring);
    ring.push(drop);
    this.#count++;
    if (ring.length > MOST_OF_AN_ENDPOINT) this.#forgetOldest(drop.hostInterface, ring);
    if (this.#count <= MOST_IN_ALL) return;
    const [quietest] = this.#rings;
    if (quietest !== undefined) this.#forgetOldest(...quietest);
  }

  #forgetOldest(hostInterface: string, ring: Drop[]): void {
    ring.shift();
    this.#count--;
    if (ring.length === 0) this.#rings.delete(hostInterface);
  }

  #countShown({ direction, reason }: { readonly direction: Direction; readonly reason: DropReason }): void {
    const key = `${direction} ${reason}`;
    const packets = (this.#shown.get(key)?.packets ?? 0) + 1;
    this.#shown.set(key, { direction, reason, packets });
  }
}
