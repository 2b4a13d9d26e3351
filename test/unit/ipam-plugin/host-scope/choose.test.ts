import { Bitmap, chooseOffset, type Occupancy } from "../../../../ipam-plugin/host-scope/range.ts";
import { seededRandom } from "../../../support/scheduler.ts";

function occupancy(changes: Partial<Occupancy> = {}): Occupancy {
  return { size: 100, taken: new Bitmap(), excluded: [], cooling: new Map(), latest: undefined, ...changes };
}

const never = () => {
  throw new Error("no random number is needed");
};

describe("the bitmap", () => {
  it("agrees with a set of numbers", () => {
    const random = seededRandom(7);
    for (let round = 0; round < 20; round++) {
      const [bitmap, reference] = [new Bitmap(), new Set<number>()];
      for (let step = 0; step < 1_000; step++) {
        const offset = Math.floor(random() * 300);
        expect(bitmap.has(offset)).toBe(reference.has(offset));
        bitmap.add(offset);
        reference.add(offset);
        const from = Math.floor(random() * 300);
        const expected = Array.from({ length: 300 - from }, (_, index) => from + index).find((one) => !reference.has(one));
        if (step % 50 === 0) expect(bitmap.firstClear(from, 300)).toBe(expected);
      }
      expect(bitmap.count).toBe(reference.size);
    }
  });

  it("has room for the largest offset of a range", () => {
    const bitmap = new Bitmap([2 ** 30 - 3]);
    expect([bitmap.has(2 ** 30 - 3), bitmap.has(2 ** 30 - 4), bitmap.count]).toEqual([true, false, 1]);
  });
});

describe("the next offset", () => {
  it("contiguous: is the first gap", () => {
    expect(chooseOffset(occupancy({ taken: new Bitmap([0, 1, 3]) }), "contiguous", never)).toBe(2);
  });

  it("random: is the first free one from a random start, with wrap-around", () => {
    const taken = new Bitmap(Array.from({ length: 50 }, (_, index) => 50 + index));
    expect(chooseOffset(occupancy({ taken }), "random", () => 0.7)).toBe(0);
    expect(chooseOffset(occupancy({ taken }), "random", () => 0.3)).toBe(30);
  });

  it("next: follows the latest grant, with wrap-around", () => {
    expect(chooseOffset(occupancy({ latest: 41 }), "next", never)).toBe(42);
    expect(chooseOffset(occupancy({ latest: 99, taken: new Bitmap([0]) }), "next", never)).toBe(1);
    expect(chooseOffset(occupancy(), "next", never)).toBe(0);
  });

  it("passes excluded offsets, which take no bit", () => {
    const excluded = [
      { start: 0, end: 10 },
      { start: 11, end: 100 },
    ];
    expect(chooseOffset(occupancy({ excluded }), "contiguous", never)).toBe(10);
    expect(chooseOffset(occupancy({ excluded, taken: new Bitmap([10]) }), "contiguous", never)).toBeUndefined();
  });

  it("takes a cooling one only when nothing else is free: the one that was released first", () => {
    const cooling = new Map([
      [3, 200],
      [4, 100],
      [5, 300],
    ]);
    expect(chooseOffset(occupancy({ size: 7, taken: new Bitmap([0, 1, 2]), cooling }), "contiguous", never)).toBe(6);
    expect(chooseOffset(occupancy({ size: 7, taken: new Bitmap([0, 1, 2, 6]), cooling }), "contiguous", never)).toBe(4);
    expect(chooseOffset(occupancy({ size: 7, taken: new Bitmap([0, 1, 2, 4, 6]), cooling }), "contiguous", never)).toBe(3);
  });
});
