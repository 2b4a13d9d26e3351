import { Standstill } from "../../../../agent/observe/metrics.ts";

const BUSY_MS = 120;
/** What the measurement may miss of it, and much more. */
const LEAST_MS = 80;
/** Longer than it lasts until the measurement ends behind a call. */
const PAUSE_MS = 250;

function standStill(milliseconds: number): void {
  for (const end = performance.now() + milliseconds; performance.now() < end; );
}

describe("The longest standstill of the event loop", () => {
  it("is measured while a call is under way, and right behind it", async () => {
    const standstill = new Standstill();
    expect(standstill.longestMs).toBe(0);
    await standstill.during(async () => {
      await Bun.sleep(PAUSE_MS);
      standStill(BUSY_MS);
    });
    await Bun.sleep(PAUSE_MS);
    expect(standstill.longestMs).toBeGreaterThan(LEAST_MS);
  });

  it("is that of all calls so far", async () => {
    const standstill = new Standstill();
    await standstill.during(async () => {
      await Bun.sleep(PAUSE_MS);
      standStill(BUSY_MS);
    });
    await Bun.sleep(PAUSE_MS);
    await standstill.during(() => Bun.sleep(PAUSE_MS));
    expect(standstill.longestMs).toBeGreaterThan(LEAST_MS);
  });

  it("is not measured while the agent is idle", async () => {
    const standstill = new Standstill();
    await standstill.during(() => Bun.sleep(PAUSE_MS));
    await Bun.sleep(PAUSE_MS);
    const before = standstill.longestMs;
    standStill(BUSY_MS);
    await Bun.sleep(PAUSE_MS);
    expect(standstill.longestMs).toBe(before);
  });
});
