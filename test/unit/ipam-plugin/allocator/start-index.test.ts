import { startIndex } from "../../../../ipam-plugin/allocator/go-random.ts";

/** From Go 1.26: rand.New(rand.NewSource(int64(fnv.New32(host)))), big.Int.Rand(n) with n = 2^bits. */
const VECTORS: readonly (readonly [string, number, bigint])[] = [
  ["node-a", 1, 1n],
  ["node-a", 2, 2n],
  ["node-a", 6, 58n],
  ["node-a", 10, 698n],
  ["node-a", 16, 57290n],
  ["node-a", 58, 251070522519304890n],
  ["node-a", 70, 908753216152714721978n],
  ["node-b", 2, 1n],
  ["node-b", 10, 873n],
  ["node-b", 58, 172678466908774047n],
  ["node-b", 70, 43179536098986735384n],
  ["worker-1", 6, 9n],
  ["worker-1", 10, 905n],
  ["worker-1", 16, 63468n],
  ["node.with.dots.example.org", 10, 9n],
  ["node.with.dots.example.org", 58, 118325632027637769n],
  ["", 6, 56n],
  ["", 16, 44216n],
  ["n".repeat(252), 10, 531n],
  ["n".repeat(252), 58, 227840382436065483n],
];

describe("the start index of a host", () => {
  it.each(VECTORS)("of %p among 2^%p blocks is the one that Calico takes", (host, bits, expected) => {
    expect(startIndex(host, 2n ** BigInt(bits))).toBe(expected);
  });

  it("is 0 when there is one block", () => {
    expect(startIndex("node-a", 1n)).toBe(0n);
  });

  it("spreads hosts over the pool", () => {
    const counts = new Map<bigint, number>();
    for (let node = 0; node < 4000; node++) {
      const index = startIndex(`node-${node}`, 16n);
      counts.set(index, (counts.get(index) ?? 0) + 1);
    }
    // 250 each on average; one in a million such samples leaves these bounds.
    expect(Math.min(...counts.values())).toBeGreaterThan(170);
    expect(Math.max(...counts.values())).toBeLessThan(330);
    expect(counts.size).toBe(16);
  });
});
