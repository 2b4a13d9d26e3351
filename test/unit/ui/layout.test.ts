/** Where each address is drawn: what is clicked is what is there, whatever the width and the size. */
import { cellAt, hitAt, layoutOf, moved, SIZES } from "../../../ui/map/layout.ts";

const blocks = (count: number, length = 64) => Array.from({ length: count }, () => ({ map: ".".repeat(length) }));

describe("the layout of the map", () => {
  it.each([
    ["small", 360],
    ["medium", 820],
    ["large", 1440],
  ] as const)("finds each address at its own place and at no other, %s at %i pixels", (size, width) => {
    const all = blocks(30);
    const layout = layoutOf(all, width, size);
    const seen = new Set<string>();
    for (let index = 0; index < all.length; index++) {
      for (let ordinal = 0; ordinal < 64; ordinal++) {
        const { x, y } = cellAt(layout, index, ordinal);
        seen.add(`${x} ${y}`);
        const middle = layout.cell / 2;
        expect(hitAt(layout, all, x + middle, y + middle)).toEqual({ index, ordinal });
        expect(x + layout.cell).toBeLessThanOrEqual(width);
        expect(y + layout.cell).toBeLessThanOrEqual(layout.height);
      }
    }
    expect(seen.size).toBe(30 * 64);
  });

  it("finds nothing beside the tiles, and none behind the last address of a shorter block", () => {
    const all = [...blocks(1), ...blocks(1, 8)];
    const layout = layoutOf(all, 1_000, "large");
    expect(hitAt(layout, all, 1, 1)).toBeUndefined();
    expect(hitAt(layout, all, layout.stepX - 2, 30)).toBeUndefined();
    const { x, y } = cellAt(layout, 1, 8);
    expect(hitAt(layout, all, x, y)).toBeUndefined();
  });

  it.each([336, 730, 1_350])("fills a row of %i pixels with tiles that have names", (width) => {
    const { cell, columns, perRow, stepX } = layoutOf(blocks(30), width, "large");
    const { gap, margin } = SIZES.large;
    expect(width - (perRow * stepX - margin)).toBeGreaterThanOrEqual(0);
    // One pixel more for each address would not fit.
    expect(perRow * (columns * (cell + 1 + gap) - gap + margin) - margin).toBeGreaterThan(width);
  });

  it("cuts a large cluster into bands that a canvas can have", () => {
    const layout = layoutOf(blocks(5_000), 1_190, "small");
    expect(layout.bands * layout.rowsPerBand * layout.perRow).toBeGreaterThanOrEqual(5_000);
    expect(layout.rowsPerBand * layout.stepY).toBeLessThanOrEqual(1_024);
  });
});

describe("keys on the map", () => {
  const lengths = [64, 64, 8];
  const layout = layoutOf([...blocks(2), ...blocks(1, 8)], 1_000, "large");
  const press = (key: string, index: number, ordinal: number) => moved({ index, ordinal }, key, layout, lengths);

  it("walk through a block and over its end into the next", () => {
    expect(press("ArrowRight", 0, 3)).toEqual({ index: 0, ordinal: 4 });
    expect(press("ArrowRight", 0, 63)).toEqual({ index: 1, ordinal: 0 });
    expect(press("ArrowLeft", 1, 0)).toEqual({ index: 0, ordinal: 63 });
    expect(press("ArrowDown", 0, 3)).toEqual({ index: 0, ordinal: 3 + layout.columns });
    expect(press("PageDown", 0, 30)).toEqual({ index: 1, ordinal: 0 });
    expect(press("End", 0, 0)).toEqual({ index: 2, ordinal: 7 });
  });

  it("stay where there is nothing further, and leave other keys to the page", () => {
    expect(press("ArrowLeft", 0, 0)).toEqual({ index: 0, ordinal: 0 });
    expect(press("ArrowUp", 0, 5)).toEqual({ index: 0, ordinal: 5 });
    expect(press("ArrowRight", 2, 7)).toEqual({ index: 2, ordinal: 7 });
    expect(press("Tab", 0, 0)).toBeUndefined();
  });
});
