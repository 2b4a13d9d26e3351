/** Decides where each address of each block is drawn (pure): blocks are tiles in rows, and rows are cut into bands of one canvas each. */
import type { BlockDocument } from "../contract.ts";

/** How large an address is drawn. Only in the larger two a tile has its block's name above it. */
export type MapSize = "small" | "medium" | "large";

interface SizeFacts {
  /** Pixels of an address at least, and between two. */
  readonly cell: number;
  readonly gap: number;
  /** Height of the line with the block's name. */
  readonly label: number;
  readonly margin: number;
}

export const SIZES: Readonly<Record<MapSize, SizeFacts>> = {
  small: { cell: 3, gap: 0, label: 0, margin: 4 },
  medium: { cell: 7, gap: 1, label: 16, margin: 14 },
  large: { cell: 14, gap: 2, label: 20, margin: 20 },
};

/** Chooses a size in which all blocks fit onto a few screens. */
export function sizeFor(blocks: number): MapSize {
  if (blocks <= 40) return "large";
  return blocks <= 400 ? "medium" : "small";
}

export interface MapLayout {
  readonly size: MapSize;
  /** Pixels of an address. */
  readonly cell: number;
  /** Addresses beside each other in a tile. */
  readonly columns: number;
  /** From one tile to the next. */
  readonly stepX: number;
  readonly stepY: number;
  readonly perRow: number;
  readonly rowsPerBand: number;
  readonly bands: number;
  readonly height: number;
}

/** Limits a canvas's height, so that one is made only near to what is looked at. */
const BAND_HEIGHT = 1_024;
/** Limits what is drawn of one block. */
export const MOST_OF_A_BLOCK = 4_096;

export function layoutOf(blocks: readonly Pick<BlockDocument, "map">[], width: number, size: MapSize): MapLayout {
  const largest = blocks.reduce((most, { map }) => Math.max(most, Math.min(map.length, MOST_OF_A_BLOCK)), 1);
  const columns = columnsOf(largest, size);
  const { cell: least, gap, label, margin } = SIZES[size];
  const perRow = Math.max(1, Math.floor((width + margin) / (columns * (least + gap) - gap + margin)));
  // Tiles with names grow until they fill the row; small ones are many, and fill it anyway.
  const fitting = Math.floor(((width + margin) / perRow - margin + gap) / columns) - gap;
  const cell = size === "small" ? least : Math.min(Math.max(least, fitting), 2 * least);
  const pitch = cell + gap;
  const stepX = columns * pitch - gap + margin;
  const stepY = Math.ceil(largest / columns) * pitch - gap + margin + label;
  const rows = Math.ceil(blocks.length / perRow);
  const rowsPerBand = Math.max(1, Math.floor(BAND_HEIGHT / stepY));
  return {
    size,
    cell,
    columns,
    stepX,
    stepY,
    perRow,
    rowsPerBand,
    bands: Math.ceil(rows / rowsPerBand),
    height: Math.max(0, rows * stepY - margin),
  };
}

/** Small tiles are square, so that many fit; larger ones are flat, so that a name fits above them. */
function columnsOf(addresses: number, size: MapSize): number {
  const square = 2 ** Math.ceil(Math.log2(addresses) / 2);
  return Math.min(addresses, size === "small" || square > 16 ? square : 16);
}

/** @returns the corner of a block's first address */
export function placeOf({ size, stepX, stepY, perRow }: MapLayout, index: number): { readonly x: number; readonly y: number } {
  return { x: (index % perRow) * stepX, y: Math.floor(index / perRow) * stepY + SIZES[size].label };
}

/** @returns the corner of an address's square */
export function cellAt(layout: MapLayout, index: number, ordinal: number): { readonly x: number; readonly y: number } {
  const { x, y } = placeOf(layout, index);
  const pitch = layout.cell + SIZES[layout.size].gap;
  return { x: x + (ordinal % layout.columns) * pitch, y: y + Math.floor(ordinal / layout.columns) * pitch };
}

export interface Hit {
  readonly index: number;
  readonly ordinal: number;
}

/** Finds the address that is drawn at a point; `undefined` between the tiles. */
export function hitAt(layout: MapLayout, blocks: readonly Pick<BlockDocument, "map">[], x: number, y: number): Hit | undefined {
  const { size, cell, columns, stepX, stepY, perRow } = layout;
  const { gap, label } = SIZES[size];
  const column = Math.floor(x / stepX);
  if (column < 0 || column >= perRow || y < 0) return undefined;
  const index = Math.floor(y / stepY) * perRow + column;
  const [across, down] = [Math.floor((x % stepX) / (cell + gap)), Math.floor(((y % stepY) - label) / (cell + gap))];
  const ordinal = down * columns + across;
  const length = Math.min(blocks[index]?.map.length ?? 0, MOST_OF_A_BLOCK);
  return across < columns && down >= 0 && ordinal < length ? { index, ordinal } : undefined;
}

/** Moves from one address to another by a key of the keyboard; `undefined` for any other key. */
export function moved({ index, ordinal }: Hit, key: string, { columns, perRow }: MapLayout, lengths: readonly number[]): Hit | undefined {
  const into = (block: number, at: number): Hit => {
    const found = Math.max(0, Math.min(block, lengths.length - 1));
    return { index: found, ordinal: Math.max(0, Math.min(at, (lengths[found] ?? 1) - 1)) };
  };
  const last = (lengths[index] ?? 1) - 1;
  switch (key) {
    case "ArrowRight":
      return ordinal < last ? into(index, ordinal + 1) : into(index + 1, index + 1 < lengths.length ? 0 : last);
    case "ArrowLeft":
      return ordinal > 0 ? into(index, ordinal - 1) : into(index - 1, index > 0 ? Number.MAX_SAFE_INTEGER : 0);
    case "ArrowDown":
      return ordinal + columns <= last ? into(index, ordinal + columns) : into(index + perRow, ordinal % columns);
    case "ArrowUp":
      return ordinal >= columns
        ? into(index, ordinal - columns)
        : into(index - perRow, index >= perRow ? Number.MAX_SAFE_INTEGER : ordinal);
    case "PageDown":
      return into(index + 1, 0);
    case "PageUp":
      return into(index - 1, 0);
    case "Home":
      return into(0, 0);
    case "End":
      return into(lengths.length - 1, Number.MAX_SAFE_INTEGER);
    default:
      return undefined;
  }
}
