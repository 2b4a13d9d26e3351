import { TokenBucket } from "../../../../../lib/kubernetes/client/limits.ts";

describe("the limit of requests a second", () => {
  it("lets a burst go at once, and what follows at the given rate", () => {
    const bucket = new TokenBucket(10, 2, 0);
    expect([0, 0, 0, 0].map((now) => bucket.take(now))).toEqual([0, 0, 100, 200]);
  });

  it("grows with time, up to a burst and no more", () => {
    const bucket = new TokenBucket(10, 2, 0);
    for (let taken = 0; taken < 4; taken++) bucket.take(0);
    expect([300, 300].map((now) => bucket.take(now))).toEqual([0, 100]);
    expect([60_000, 60_000, 60_000].map((now) => bucket.take(now))).toEqual([0, 0, 100]);
  });

  it.each([0, -1])("is none with %i a second, and a burst of less than one is one", (qps) => {
    const bucket = new TokenBucket(qps, 0, 0);
    expect([0, 0, 0].map((now) => bucket.take(now))).toEqual([0, 0, 0]);
    const single = new TokenBucket(10, 0, 0);
    expect([0, 0].map((now) => single.take(now))).toEqual([0, 100]);
  });
});
