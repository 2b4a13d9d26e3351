import { goTimestamp, parseGoTimestamp } from "../../../ipam-plugin/workload.ts";

describe("a time as Go prints it", () => {
  it.each([
    [1_787_405_600_123_456_789n, "2026-08-22 13:33:20.123456789 +0000 UTC"],
    [1_787_405_600_500_000_000n, "2026-08-22 13:33:20.5 +0000 UTC"],
    [1_787_405_600_000_000_000n, "2026-08-22 13:33:20 +0000 UTC"],
    [1_787_405_600_000_000_001n, "2026-08-22 13:33:20.000000001 +0000 UTC"],
    [1_787_405_600_999_000_000n, "2026-08-22 13:33:20.999 +0000 UTC"],
  ])("drops the trailing zeros of the fraction: %p", (nanoseconds, text) => {
    expect(goTimestamp(nanoseconds)).toBe(text);
    expect(parseGoTimestamp(text)).toBe(Number(nanoseconds / 1_000_000n));
  });

  it.each([undefined, "", "yesterday", "2026-08-22T13:33:20Z", "2026-08-22 13:33:20 +0200 CEST", "2026-13-41 25:61:61 +0000 UTC"])(
    "is no time to be read: %p",
    (text) => expect(parseGoTimestamp(text)).toBeUndefined(),
  );
});
