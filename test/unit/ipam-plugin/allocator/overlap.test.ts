import { refuseOverlaps } from "../../../../ipam-plugin/allocator/overlap.ts";

describe("blocks that a migration would make", () => {
  it("are refused when two of them have an address in common", () => {
    expect(() => refuseOverlaps(["10.66.0.0/26", "fd00::/122", "10.66.0.16/29"])).toThrow(
      "block 10.66.0.0/26 would overlap with block 10.66.0.16/29, which has another size",
    );
  });

  it("are made when they only touch each other", () => {
    expect(() => refuseOverlaps(["10.66.0.0/29", "10.66.0.8/29", "10.66.0.16/28", "fd00::/122", "fd00::40/123"])).not.toThrow();
  });
});
