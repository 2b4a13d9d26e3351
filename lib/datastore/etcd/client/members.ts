/**
 * Which member of the cluster is asked next: the one that answered last, as long as it answers. One that failed is left alone for a
 * while, which grows with every failure; when all have failed, the one whose while ends first is tried.
 */

const FIRST_REST_MS = 1_000;
export const LONGEST_REST_MS = 30_000;

/** Of a member that has failed lately. */
export interface Health {
  readonly failures: number;
  /** By a clock that never jumps, ms. */
  readonly restsUntil: number;
}

export interface MembersOptions<M> {
  /** Between 0 and 1: the nodes of a cluster begin with different members. */
  readonly random?: (() => number) | undefined;
  /** What others have found out before. */
  readonly known?: ReadonlyMap<M, Health>;
  /** Told of all that are not well whenever that changes. */
  readonly onChange?: (health: ReadonlyMap<M, Health>) => void;
}

export class Members<M> {
  readonly #members: readonly M[];
  readonly #health: Map<M, Health>;
  readonly #onChange: (health: ReadonlyMap<M, Health>) => void;
  #current: number;

  constructor(members: readonly M[], { random = Math.random, known = new Map(), onChange = () => {} }: MembersOptions<M> = {}) {
    this.#members = members;
    this.#health = new Map(known);
    this.#onChange = onChange;
    this.#current = Math.floor(random() * members.length) % members.length;
  }

  get count(): number {
    return this.#members.length;
  }

  get all(): readonly M[] {
    return this.#members;
  }

  /** @param now of a clock that never jumps, as everywhere here */
  next(now: number): M {
    const inTurn = this.#members.map((_, offset) => (this.#current + offset) % this.#members.length);
    const restOf = (index: number) => Math.max(0, this.#restsUntil(index) - now);
    const best = inTurn.reduce((one, other) => (restOf(other) < restOf(one) ? other : one));
    this.#current = best;
    const member = this.#members[best];
    if (member === undefined) throw new RangeError("no members");
    return member;
  }

  /** Whether a member can be asked that has not failed lately. */
  hasRested(now: number): boolean {
    return this.#members.some((_, index) => this.#restsUntil(index) <= now);
  }

  succeeded(member: M): void {
    if (this.#health.delete(member)) this.#onChange(this.#health);
  }

  failed(member: M, now: number): void {
    const failures = (this.#health.get(member)?.failures ?? 0) + 1;
    this.#health.set(member, { failures, restsUntil: now + Math.min(FIRST_REST_MS * 2 ** (failures - 1), LONGEST_REST_MS) });
    this.#onChange(this.#health);
  }

  #restsUntil(index: number): number {
    const member = this.#members[index];
    return (member === undefined ? undefined : this.#health.get(member)?.restsUntil) ?? 0;
  }
}
