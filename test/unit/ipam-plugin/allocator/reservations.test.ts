import { Reservations } from "../../../../ipam-plugin/allocator/reservations.ts";
import { address } from "../../../support/addresses.ts";

function reservations(...reservedCIDRs: string[]): Reservations {
  return new Reservations([{ name: "r", reservedCIDRs }]);
}

function value(text: string): bigint {
  return address(text).value;
}

describe("reservations", () => {
  it("hold CIDRs and bare addresses, with blanks around them, and skip what is neither", () => {
    const reserved = reservations("10.0.0.4/31", " 10.0.0.9 ", "rubbish", "10.0.0.0/99", "fd00::1");
    const isReserved = (text: string) => reserved.reservedUntil(text.includes(":") ? 6 : 4, value(text)) !== undefined;
    expect(["10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.9", "fd00::1", "fd00::2"].filter(isReserved)).toEqual([
      "10.0.0.4",
      "10.0.0.5",
      "10.0.0.9",
      "fd00::1",
    ]);
  });

  it("cover a block by two halves", () => {
    expect(reservations("10.0.0.0/27", "10.0.0.32/27").countIn(4, value("10.0.0.0"), 64n)).toBe(64n);
  });

  it("count nested and repeated CIDRs once", () => {
    const reserved = reservations("10.0.0.0/28", "10.0.0.4/30", "10.0.0.4/30", "10.0.0.15/32");
    expect(reserved.countIn(4, value("10.0.0.0"), 256n)).toBe(16n);
  });

  it("count only what lies in the range asked for", () => {
    expect(reservations("10.0.0.0/24").countIn(4, value("10.0.0.64"), 64n)).toBe(64n);
    expect(reservations("10.0.1.0/24").countIn(4, value("10.0.0.64"), 64n)).toBe(0n);
  });

  it("unite those of several objects", () => {
    const reserved = new Reservations([
      { name: "a", reservedCIDRs: ["10.0.0.0/32"] },
      { name: "b", reservedCIDRs: ["10.0.0.1/32"] },
    ]);
    expect(reserved.reservedUntil(4, value("10.0.0.0"))).toBe(value("10.0.0.1"));
  });
});
