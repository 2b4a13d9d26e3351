import { parseQuantity } from "../../../../lib/workload/qos-controls.ts";

describe("parseQuantity", () => {
  // The forms of k8s.io/apimachinery, pkg/api/resource: decimal and binary suffixes, exponents, signs; Value() rounds up.
  it.each([
    ["0", 0n],
    ["100", 100n],
    ["+5", 5n],
    ["-5", -5n],
    ["1k", 1_000n],
    ["10M", 10_000_000n],
    ["1G", 1_000_000_000n],
    ["1T", 10n ** 12n],
    ["1P", 10n ** 15n],
    ["1E", 10n ** 18n],
    ["1Ki", 1024n],
    ["1.5Gi", 1_610_612_736n],
    ["1Ei", 2n ** 60n],
    ["1.01P", 1_010_000_000_000_000n],
    ["1e3", 1_000n],
    ["1E3", 1_000n],
    ["1e+3", 1_000n],
    ["1500e-3", 2n],
    ["250m", 1n],
    ["1n", 1n],
    ["-250m", -1n],
    [".5", 1n],
    ["5.", 5n],
    ["0.001k", 1n],
    ["1e999999", 10n ** 40n],
    ["1e-999999", 1n],
  ])("reads %j as %s", (text, value) => {
    expect(parseQuantity(text)).toBe(value);
  });

  it.each(["", ".", "k", "1 k", "1K", "1ki", "1kB", "1e", "1e3k", "e3", "--1", "1,5", "0x10", "1.2.3", "nonsense", "NaN", "1".repeat(65)])(
    "refuses %j",
    (text) => {
      expect(parseQuantity(text)).toBeUndefined();
    },
  );
});
