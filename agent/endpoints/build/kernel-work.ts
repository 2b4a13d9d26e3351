/** Whose links a build is at just now. A build that does not end when it is told to may still make a link that a removal has taken away. */
export class KernelWork {
  readonly #running = new Map<number, number>();

  isRunning(id: number): boolean {
    return this.#running.has(id);
  }

  /** @returns what `work` returns @throws what it throws */
  async during<T>(id: number, work: () => Promise<T>): Promise<T> {
    this.#running.set(id, (this.#running.get(id) ?? 0) + 1);
    try {
      return await work();
    } finally {
      const left = (this.#running.get(id) ?? 1) - 1;
      if (left > 0) this.#running.set(id, left);
      else this.#running.delete(id);
    }
  }
}
