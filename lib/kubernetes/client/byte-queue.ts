/** Bytes that arrive at one end and are taken from the other; memory grows by doubling, so that many small pieces cost no more than a large one. */

const FIRST_SIZE = 4096;

export class ByteQueue {
  #buffer = new Uint8Array(0);
  #start = 0;
  #end = 0;

  get length(): number {
    return this.#end - this.#start;
  }

  push(bytes: Uint8Array): void {
    // What was taken before is valid no more.
    if (this.#start === this.#end) this.#start = this.#end = 0;
    this.#reserve(bytes.length);
    this.#buffer.set(bytes, this.#end);
    this.#end += bytes.length;
  }

  /** The next `count` bytes, at most what is there; valid until the next `push`. */
  take(count: number): Uint8Array {
    const end = Math.min(this.#start + count, this.#end);
    const bytes = this.#buffer.subarray(this.#start, end);
    this.#start = end;
    return bytes;
  }

  /**
   * Takes the bytes before the next line end, and the line end. A lone line feed ends a line too (RFC 9112, 2.2).
   *
   * @returns `undefined` while no line is complete
   */
  takeLine(): Uint8Array | undefined {
    const start = this.#start;
    const feed = this.#buffer.indexOf(0x0a, start);
    // Beyond the end lies what was there before.
    if (feed < 0 || feed >= this.#end) return undefined;
    this.#start = feed + 1;
    return this.#buffer.subarray(start, feed > start && this.#buffer[feed - 1] === 0x0d ? feed - 1 : feed);
  }

  #reserve(count: number): void {
    if (this.#end + count <= this.#buffer.length) return;
    const length = this.length;
    let size = Math.max(this.#buffer.length, FIRST_SIZE);
    // At least half of it is room then, so that what is in it is not moved for every few bytes.
    while (size < 2 * (length + count)) size *= 2;
    const next = new Uint8Array(size);
    next.set(this.#buffer.subarray(this.#start, this.#end));
    this.#buffer = next;
    this.#start = 0;
    this.#end = length;
  }
}
