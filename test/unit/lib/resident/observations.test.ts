/** What was seen since when, on a clock that the test moves. */
import { Observations } from "../../../../lib/resident/observations.ts";

let now = 0;
let seen: Observations;

beforeEach(() => {
  now = 0;
  seen = new Observations({ now: () => now });
});

function lookAt(time: number, ...keys: string[]): void {
  now = time;
  seen.look(keys);
}

function isConfirmedAt(time: number, key: string, graceMs: number): boolean {
  now = time;
  return seen.isConfirmed(key, graceMs);
}

describe("observations", () => {
  it("are none any more when all are forgotten", () => {
    lookAt(0, "a");
    lookAt(1, "a");
    seen.forget();
    lookAt(2, "a");
    expect(isConfirmedAt(2, "a", 0)).toBe(false);
  });

  it("G16: begin again when their lists were not followed in between", () => {
    for (const time of [0, 100]) lookAt(time, "a");
    seen.forgetBefore(150);
    lookAt(1_000, "a");
    expect(isConfirmedAt(1_000, "a", 500)).toBe(false);
    lookAt(1_500, "a");
    seen.forgetBefore(150);
    expect([isConfirmedAt(1_499, "a", 500), isConfirmedAt(1_500, "a", 500)]).toEqual([false, true]);
  });

  it("confirm after two looks and the grace period, and forget what one look does not find", () => {
    lookAt(0, "a", "b");
    expect(isConfirmedAt(1_000, "a", 0)).toBe(false);
    lookAt(900, "a");
    expect([isConfirmedAt(999, "a", 1_000), isConfirmedAt(1_000, "a", 1_000)]).toEqual([false, true]);
    lookAt(1_800, "a", "b");
    expect([isConfirmedAt(1_800, "b", 0), isConfirmedAt(1_800, "c", 0)]).toEqual([false, false]);
    expect(seen.size).toBe(2);
  });
});
