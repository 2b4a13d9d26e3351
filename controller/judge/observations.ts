/**
 * How long a condition has been observed: nothing is removed on one observation (design, invariant 14). Looks are made only while
 * every list is complete and followed; what a look does not find is forgotten.
 */

interface Observation {
  readonly since: number;
  readonly looks: number;
}

export class Observations {
  readonly #seen = new Map<string, Observation>();

  /**
   * One look of one kind: all keys that begin with `kind`, and no others, are observed or forgotten.
   * @param now of a clock that never jumps
   */
  look(kind: string, keys: Iterable<string>, now: number): void {
    const found = new Set<string>();
    for (const key of keys) {
      const full = `${kind} ${key}`;
      found.add(full);
      const before = this.#seen.get(full);
      this.#seen.set(full, before === undefined ? { since: now, looks: 1 } : { since: before.since, looks: before.looks + 1 });
    }
    for (const key of [...this.#seen.keys()]) if (key.startsWith(`${kind} `) && !found.has(key)) this.#seen.delete(key);
  }

  /** Seen at two looks at least, the first of them `graceMs` ago. */
  isConfirmed(kind: string, key: string, graceMs: number, now: number): boolean {
    const seen = this.#seen.get(`${kind} ${key}`);
    return seen !== undefined && seen.looks >= 2 && now - seen.since >= graceMs;
  }

  /** A condition may have come and gone while changes were not heard of: what was seen before `followedSince` begins again. */
  forgetBefore(followedSince: number): void {
    for (const [key, { since }] of this.#seen) if (since < followedSince) this.#seen.delete(key);
  }

  count(kind: string): number {
    return [...this.#seen.keys()].filter((key) => key.startsWith(`${kind} `)).length;
  }

  forgetAll(): void {
    this.#seen.clear();
  }
}
