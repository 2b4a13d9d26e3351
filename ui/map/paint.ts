/** Draws tiles into a canvas, a few milliseconds at a time, so that the page answers while hundreds of thousands of addresses appear. */
import { type BlockDocument, SIGNS, type Sign } from "../contract.ts";
import { plain } from "../format.ts";
import { type MapLayout, MOST_OF_A_BLOCK, placeOf, SIZES } from "./layout.ts";

/** Are pixels as ImageData has them, red in the lowest octet; `fresh` is for what has just changed. */
type Palette = Readonly<Record<Sign | "fresh", number>> & { readonly ink: string; readonly font: string };

/** Reads the colours of the style sheet, which has them for light and dark. */
export function paletteOf(element: Element): Palette {
  const style = getComputedStyle(element);
  const color = (name: string) => pixelOf(style.getPropertyValue(`--${name}`).trim());
  const signs = Object.fromEntries(Object.entries(SIGNS).map(([sign, standing]) => [sign, color(standing)])) as Record<Sign, number>;
  return { ...signs, fresh: color("fresh"), ink: style.getPropertyValue("--muted").trim(), font: style.fontFamily };
}

/** Reads "#rrggbb". */
function pixelOf(text: string): number {
  const [red, green, blue] = [1, 3, 5].map((at) => Number.parseInt(text.slice(at, at + 2), 16));
  return ((0xff << 24) | ((blue ?? 0) << 16) | ((green ?? 0) << 8) | (red ?? 0)) >>> 0;
}

const FRAME_MS = 8;
/** Looks at the clock after so many tiles. */
const TILES_A_LOOK = 8;

/** Is a block by its index, and which of its addresses stand out. */
export type Tile = readonly [index: number, block: BlockDocument, fresh?: ReadonlySet<number> | undefined];

/** Says what to draw of one band. */
interface Job {
  readonly canvas: HTMLCanvasElement;
  readonly layout: MapLayout;
  readonly palette: Palette;
  /** Index of the first block of the band. */
  readonly first: number;
  readonly tiles: readonly Tile[];
}

/** Has what is still to be drawn, of all maps: they share the few milliseconds of each frame. */
const waiting: Drawing[] = [];
let isScheduled = false;

interface Drawing {
  readonly job: Job;
  readonly onTile: (tile: Tile) => void;
  next: number;
}

/**
 * Draws in the frames that come, after everything that waits already.
 * @param onTile is called for each tile that is there
 * @returns what ends it early
 */
export function paint(job: Job, onTile: (tile: Tile) => void): () => void {
  const drawing: Drawing = { job, onTile, next: 0 };
  waiting.push(drawing);
  schedule();
  return () => {
    const at = waiting.indexOf(drawing);
    if (at >= 0) waiting.splice(at, 1);
  };
}

function schedule(): void {
  if (isScheduled || waiting.length === 0) return;
  isScheduled = true;
  requestAnimationFrame(() => {
    isScheduled = false;
    const end = performance.now() + FRAME_MS;
    // Draws into one canvas a frame: each that has changed is copied to the screen whole.
    const [drawing] = waiting;
    if (drawing !== undefined && drawUntil(end, drawing)) waiting.shift();
    schedule();
  });
}

/** @returns whether all of it is drawn */
function drawUntil(end: number, drawing: Drawing): boolean {
  const { job, onTile } = drawing;
  const context = job.canvas.getContext("2d");
  // Leaves a canvas whose view was closed meanwhile: it has no width on the screen, and so no scale.
  if (context === null || job.canvas.clientWidth === 0) return true;
  const scale = job.canvas.width / job.canvas.clientWidth;
  const top = placeOf(job.layout, job.first).y - SIZES[job.layout.size].label;
  while (drawing.next < job.tiles.length) {
    const tile = job.tiles[drawing.next++];
    if (tile !== undefined) {
      paintTile(context, job, tile, top, scale);
      onTile(tile);
    }
    if (drawing.next % TILES_A_LOOK === 0 && performance.now() > end) break;
  }
  return drawing.next >= job.tiles.length;
}

function paintTile(
  context: CanvasRenderingContext2D,
  { layout, palette }: Job,
  [index, block, fresh]: Tile,
  top: number,
  scale: number,
): void {
  const { gap, label, margin } = SIZES[layout.size];
  const { cell } = layout;
  const { x, y } = placeOf(layout, index);
  const [side, pitch] = [Math.max(1, Math.round(cell * scale)), (cell + gap) * scale];
  const length = Math.min(block.map.length, MOST_OF_A_BLOCK);
  const width = Math.ceil(layout.columns * pitch);
  const image = context.createImageData(width, Math.ceil(Math.ceil(length / layout.columns) * pitch));
  const pixels = new Uint32Array(image.data.buffer);
  for (let ordinal = 0; ordinal < length; ordinal++) {
    const sign = block.map.charAt(ordinal) as Sign;
    const color = fresh?.has(ordinal) === true ? palette.fresh : (palette[sign] ?? palette["."]);
    const left = Math.round((ordinal % layout.columns) * pitch);
    const from = Math.round(Math.floor(ordinal / layout.columns) * pitch);
    // Shapes tell the larger squares apart where colours do not.
    const inset = cell < 7 ? 0 : Math.round(side * INSETS[sign]);
    for (let row = from + inset; row < from + side - inset; row++)
      pixels.fill(color, row * width + left + inset, row * width + left + side - inset);
    if (cell >= 7 && sign === "b") hole(pixels, palette["."], width, left, from, side);
  }
  context.putImageData(image, Math.round(x * scale), Math.round((y - top) * scale));
  if (label === 0) return;
  const room = layout.stepX - margin;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(x, y - top - label, layout.stepX, label);
  context.fillStyle = palette.ink;
  context.font = `${layout.size === "large" ? 12 : 11}px ${palette.font}`;
  context.fillText(fitting(context, block, room), x, y - top - 6);
  context.setTransform(1, 0, 0, 1, 0, 0);
}

/** Shares of a square's side that stay empty around it. */
const INSETS: Readonly<Record<Sign, number>> = { u: 0, b: 0, c: 0.22, r: 0.36, ".": 0 };

function hole(pixels: Uint32Array, color: number, width: number, left: number, from: number, side: number): void {
  const inset = Math.round(side * 0.36);
  for (let row = from + inset; row < from + side - inset; row++)
    pixels.fill(color, row * width + left + inset, row * width + left + side - inset);
}

/** Writes the block and its owner, or what of them there is room for. */
function fitting(context: CanvasRenderingContext2D, { cidr, owner }: BlockDocument, room: number): string {
  const name = plain(owner?.replace(/^host:/, "") ?? "no owner");
  for (const text of [`${cidr}  ${name}`, cidr]) if (context.measureText(text).width <= room) return text;
  let text = cidr;
  while (text.length > 1 && context.measureText(`${text}…`).width > room) text = text.slice(0, -1);
  return `${text}…`;
}
