/**
 * A set of offsets, one bit each (A§4.1). Words without a bit are not stored, so a /2 costs no more than the addresses that are granted
 * from it.
 */

const BITS = 32;
const FULL = 0xffff_ffff;

export class Bitmap {
  readonly #words = new Map<number, number>();
  #count = 0;

  constructor(offsets: Iterable<number> = []) {
    for (const offset of offsets) this.add(offset);
  }

  /** How many bits are set. */
  get count(): number {
    return this.#count;
  }

  has(offset: number): boolean {
    return (this.#wordOf(offset) & bitOf(offset)) !== 0;
  }

  /** @returns whether it was clear before */
  add(offset: number): boolean {
    if (this.has(offset)) return false;
    this.#words.set(Math.floor(offset / BITS), (this.#wordOf(offset) | bitOf(offset)) >>> 0);
    this.#count += 1;
    return true;
  }

  /** @returns whether it was set before */
  delete(offset: number): boolean {
    if (!this.has(offset)) return false;
    this.#words.set(Math.floor(offset / BITS), (this.#wordOf(offset) & ~bitOf(offset)) >>> 0);
    this.#count -= 1;
    return true;
  }

  /** The first clear bit from `from` to before `end`; whole words that are full are passed in one step. */
  firstClear(from: number, end: number): number | undefined {
    for (let offset = from; offset < end; ) {
      if (offset % BITS === 0 && this.#wordOf(offset) === FULL) {
        offset += BITS;
        continue;
      }
      if (!this.has(offset)) return offset;
      offset += 1;
    }
    return undefined;
  }

  #wordOf(offset: number): number {
    return this.#words.get(Math.floor(offset / BITS)) ?? 0;
  }
}

function bitOf(offset: number): number {
  return 1 << (offset % BITS);
}
