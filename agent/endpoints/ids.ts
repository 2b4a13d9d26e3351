/**
 * Gives the endpoints of this node their numbers (A§5.1). The id that has been free the longest is given first, never within 60 s of its release
 * and never while a directory of its last owner exists: a client that still knows an old number must not reach another endpoint.
 */
import { TortieError } from "../../lib/errors/errors.ts";

const DEFAULT_MAX_ENDPOINTS = 4095;
/** 16 bits, which programs that keep ids in kernel maps rely on. */
export const LARGEST_ID = 65535;
const REST_MS = 60_000;

export interface IdPoolOptions {
  readonly max?: number;
  readonly now: () => number;
  /** Whether the id still has a directory. */
  readonly hasDirectory: (id: number) => boolean;
}

interface Released {
  readonly id: number;
  readonly at: number;
}

export class IdPool {
  readonly #max: number;
  readonly #options: IdPoolOptions;
  readonly #inUse = new Set<number>();
  /** In the order of their release. */
  #released: Released[] = [];
  /** Every id that was ever in use or in the way: only the others are fresh. */
  readonly #seen = new Set<number>();
  #nextFresh = 1;

  constructor(options: IdPoolOptions) {
    this.#max = Math.min(options.max ?? DEFAULT_MAX_ENDPOINTS, LARGEST_ID);
    this.#options = options;
  }

  /** @throws TortieError `endpoint-ids-exhausted` */
  take(): number {
    const id = this.#takeFresh() ?? this.#takeReleased();
    if (id === undefined) {
      throw new TortieError("endpoint-ids-exhausted", `no more endpoint IDs available: ${this.#inUse.size} of ${this.#max} are in use`);
    }
    this.#inUse.add(id);
    this.#seen.add(id);
    return id;
  }

  /** Takes an id for what `use` makes of it. An id for which that fails rests. @throws as `take`; what `use` throws */
  takeFor<T>(use: (id: number) => T): T {
    const id = this.take();
    try {
      return use(id);
    } catch (error) {
      this.release(id);
      throw error;
    }
  }

  /**
   * Takes a certain id, that of a restored endpoint. It may be above the limit, which can have been lowered.
   * @throws Error when it is in use
   */
  reserve(id: number): void {
    if (this.#inUse.has(id)) throw new Error(`endpoint ID ${id} is already in use`);
    this.#inUse.add(id);
    this.#seen.add(id);
    this.#released = this.#released.filter((one) => one.id !== id);
  }

  /** An id above the limit is not given again. */
  release(id: number): void {
    if (this.#inUse.delete(id) && id <= this.#max) this.#released.push({ id, at: this.#options.now() });
  }

  /** Keeps an id that nobody has from being given for a while, as a released one. @throws Error when it is in use */
  rest(id: number): void {
    this.reserve(id);
    this.release(id);
  }

  #takeFresh(): number | undefined {
    while (this.#nextFresh <= this.#max) {
      const id = this.#nextFresh++;
      if (this.#seen.has(id)) continue;
      if (!this.#options.hasDirectory(id)) return id;
      // What is in the way may go; until then the id counts as released now.
      this.#seen.add(id);
      this.#released.push({ id, at: this.#options.now() });
    }
    return undefined;
  }

  #takeReleased(): number | undefined {
    const { now, hasDirectory } = this.#options;
    const latest = now() - REST_MS;
    const at = this.#released.findIndex((one) => one.at <= latest && !hasDirectory(one.id));
    return at < 0 ? undefined : this.#released.splice(at, 1)[0]?.id;
  }
}
