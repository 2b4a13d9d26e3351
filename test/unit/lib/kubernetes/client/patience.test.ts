import { Patience } from "../../../../../lib/kubernetes/client/limits.ts";
import { fresh } from "../../../../support/fixtures.ts";

describe("the patience of a client", () => {
  const patience = fresh(() => new Patience(60_000, 0));

  it("is used up by what fails", () => {
    patience.spend(0, 50_000, 0);

    expect(patience.left(0)).toBe(10_000);
    patience.spend(50_000, 100_000, 0);
    expect(patience.left(0)).toBeLessThan(0);
  });

  it("comes back with time, all of it and no more", () => {
    patience.spend(0, 60_000, 0);

    expect(patience.left(100_000)).toBe(20_000);
    expect(patience.left(10_000_000)).toBe(60_000);
  });

  it("is whole again ten minutes after an outage, however long it was", () => {
    for (let request = 0; request < 1_000; request++) patience.spend(request * 5_000, (request + 1) * 5_000, 5_000_000);

    expect(patience.left(5_600_000)).toBe(60_000);
  });

  it("is used up no faster by many requests that wait at one time than by one", () => {
    for (let request = 0; request < 16; request++) patience.spend(request * 100, 10_000, 10_000);

    expect(patience.left(10_000)).toBe(50_000);
  });

  it("lets one operation wait little longer than it is", () => {
    let now = 0;
    while (patience.left(now) > 0) {
      now += 5_000;
      patience.spend(now - 5_000, now, now);
    }

    expect(now).toBeLessThanOrEqual(80_000);
  });
});
