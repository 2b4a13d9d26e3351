import { fresh } from "./fixtures.ts";

const ends = fresh(() => new DisposableStack());

/** Closes what it is given when the test ends. */
export function closing<T extends { close(): void }>(one: T): T {
  return ends.adopt(one, () => one.close());
}
