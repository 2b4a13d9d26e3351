/** How long a client waits before it asks again, as a function of what has failed so far. */
import type { ApiRequest } from "../../../../../lib/kubernetes/api-client.ts";
import { DEFAULT_LIMITS, type FailedTry, pauseBeforeRepeating } from "../../../../../lib/kubernetes/client/limits.ts";
import { TransportError } from "../../../../../lib/kubernetes/client/transport-error.ts";

const GET: ApiRequest = { method: "GET", path: "/a" };
const BUSY: FailedTry = { status: 503, contentType: "", retryAfter: "", body: "" };
const LIMITS = { ...DEFAULT_LIMITS, firstPause: 100, longestPause: 400, repetitions: 4, refused: 1_000, retryAfter: 10_000 };

const pauseOf = (failed: FailedTry, failures = 1, refusedFor = 0) => pauseBeforeRepeating(GET, failed, { failures, refusedFor }, LIMITS);
const many = (failures: number) => Array.from({ length: 200 }, () => pauseOf(BUSY, failures) ?? Number.NaN);

describe("the pause before a request is repeated", () => {
  it.each([
    [1, 100],
    [2, 200],
    [3, 400],
    [4, 400],
  ])("after %i failures is between half of %i ms and all of it, and not always the same", (failures, longest) => {
    const pauses = many(failures);
    expect(Math.min(...pauses)).toBeGreaterThanOrEqual(longest / 2);
    expect(Math.max(...pauses)).toBeLessThanOrEqual(longest);
    expect(new Set(pauses).size).toBeGreaterThan(1);
  });

  it("is none after as many repetitions as there may be", () => {
    expect(pauseOf(BUSY, 4)).toBeDefined();
    expect(pauseOf(BUSY, 5)).toBeUndefined();
  });

  it("is none where the server would have to be waited for longer than for one that is restarted", () => {
    const refused = new TransportError("not-connected", "refused");
    expect(pauseOf(refused, 1, 900)).toBe(100);
    expect(pauseOf(refused, 1, 901)).toBeUndefined();
  });

  it("is what the server has asked for, in seconds or until a time, unless it is too long", () => {
    expect(pauseOf({ ...BUSY, retryAfter: "10" })).toBe(10_000);
    expect(pauseOf({ ...BUSY, retryAfter: "11" })).toBeUndefined();
    expect(pauseOf({ ...BUSY, body: '{"details":{"retryAfterSeconds": 2}}' })).toBe(2_000);
    expect(pauseOf({ ...BUSY, retryAfter: new Date(Date.now() + 60_000).toUTCString() })).toBeUndefined();
    expect(pauseOf({ ...BUSY, retryAfter: "0" })).toBeGreaterThanOrEqual(50);
    expect(pauseOf({ ...BUSY, retryAfter: "soon" })).toBeLessThanOrEqual(100);
  });
});
