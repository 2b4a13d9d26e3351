/** Shows blocks as a map on canvases, to look at, to click and to walk on by keys. The table beside it says the same in words. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { addressAt, formatAddress, parsePrefix } from "../../lib/addresses/address.ts";
import { type BlockDocument, SIGNS, type Sign } from "../contract.ts";
import { plain } from "../format.ts";
import { cellAt, type Hit, hitAt, layoutOf, type MapLayout, type MapSize, MOST_OF_A_BLOCK, moved, placeOf, SIZES } from "./layout.ts";
import { paint, paletteOf, type Tile } from "./paint.ts";

interface MapProps {
  /** Names the map: its pool. */
  readonly label: string;
  readonly blocks: readonly BlockDocument[];
  readonly size: MapSize;
  readonly selected: string | undefined;
  onSelect(address: string): void;
}

export function addressOf(block: BlockDocument, ordinal: number): string {
  const prefix = parsePrefix(block.cidr);
  return prefix === undefined ? "" : formatAddress(addressAt(prefix, ordinal));
}

/** Says what an address is, with its block. */
function sentenceOf(block: BlockDocument, ordinal: number): string {
  const standing = SIGNS[block.map.charAt(ordinal) as Sign] ?? "free";
  const owner = block.owner === null ? "without owner" : `of ${plain(block.owner.replace(/^host:/, ""))}`;
  return `${addressOf(block, ordinal)} ${standing}, block ${block.cidr} ${owner}`;
}

export function AddressMap({ label, blocks, size, selected, onSelect }: MapProps) {
  const frame = useRef<HTMLDivElement>(null);
  const width = useWidth(frame);
  const layout = useSame(useMemo(() => layoutOf(blocks, width, size), [blocks, width, size]));
  const [cursor, setCursor] = useState<Hit>();
  const [pointed, setPointed] = useState<Hit>();
  const lengths = useMemo(() => blocks.map(({ map }) => Math.min(map.length, MOST_OF_A_BLOCK)), [blocks]);
  const chosen = useMemo(() => findAddress(blocks, selected), [blocks, selected]);
  const open = ({ index, ordinal }: Hit) => {
    const block = blocks[index];
    if (block !== undefined) onSelect(addressOf(block, ordinal));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const from = cursor ?? chosen ?? { index: 0, ordinal: 0 };
    if (event.key === "Enter" || event.key === " ") open(from);
    const to = moved(from, event.key, layout, lengths);
    if (to !== undefined) setCursor(to);
    if (to !== undefined || event.key === "Enter" || event.key === " ") event.preventDefault();
  };
  const at = (event: MouseEvent) => {
    const { left, top } = (frame.current ?? document.body).getBoundingClientRect();
    return hitAt(layout, blocks, event.clientX - left, event.clientY - top);
  };
  const spoken = cursor === undefined ? undefined : blocks[cursor.index];
  return (
    <div
      class="map"
      ref={frame}
      role="application"
      aria-roledescription="address map"
      aria-label={`Addresses of ${label}: arrow keys move, Enter explains; the table says the same`}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: keys walk over the map
      tabIndex={0}
      style={{ height: `${layout.height}px` }}
      onKeyDown={onKeyDown}
      onBlur={() => setCursor(undefined)}
      onMouseMove={(event) => setPointed(at(event))}
      onMouseLeave={() => setPointed(undefined)}
      onClick={(event) => {
        const hit = at(event);
        if (hit !== undefined) open(hit);
      }}
    >
      {width > 0 && Array.from({ length: layout.bands }, (_, band) => <Band key={band} band={band} layout={layout} blocks={blocks} />)}
      <Outline layout={layout} of={chosen} kind="chosen" />
      <Outline layout={layout} of={cursor} kind="cursor" />
      <Tip layout={layout} blocks={blocks} of={pointed} width={width} />
      <span class="hidden" aria-live="polite">
        {cursor !== undefined && spoken !== undefined && sentenceOf(spoken, cursor.ordinal)}
      </span>
    </div>
  );
}

/** Keeps the object of before while it says the same: what is drawn stays. */
function useSame<T extends object>(now: T): T {
  const kept = useRef(now);
  if (JSON.stringify(kept.current) !== JSON.stringify(now)) kept.current = now;
  return kept.current;
}

function useWidth(frame: { readonly current: HTMLDivElement | null }): number {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = frame.current;
    if (element === null) return undefined;
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry?.contentRect.width ?? 0)));
    observer.observe(element);
    return () => observer.disconnect();
  }, [frame]);
  return width;
}

function findAddress(blocks: readonly BlockDocument[], address: string | undefined): Hit | undefined {
  const wanted = address === undefined ? undefined : parsePrefix(`${address}/${address.includes(":") ? 128 : 32}`)?.address;
  if (wanted === undefined) return undefined;
  for (const [index, { cidr, map }] of blocks.entries()) {
    const first = parsePrefix(cidr)?.address;
    if (first === undefined || first.family !== wanted.family) continue;
    const ordinal = wanted.value - first.value;
    if (ordinal >= 0n && ordinal < BigInt(map.length)) return { index, ordinal: Number(ordinal) };
  }
  return undefined;
}

function Outline({ layout, of, kind }: { readonly layout: MapLayout; readonly of: Hit | undefined; readonly kind: "cursor" | "chosen" }) {
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (kind === "cursor") element.current?.scrollIntoView({ block: "nearest" });
  }, [kind, of]);
  if (of === undefined) return null;
  const { x, y } = cellAt(layout, of.index, of.ordinal);
  const side = `${layout.cell}px`;
  return <div ref={element} class={kind} style={{ left: `${x}px`, top: `${y}px`, width: side, height: side }} />;
}

const TIP_WIDTH = 300;

function Tip({
  layout,
  blocks,
  of,
  width,
}: {
  readonly layout: MapLayout;
  readonly blocks: readonly BlockDocument[];
  readonly of: Hit | undefined;
  readonly width: number;
}) {
  const block = of && blocks[of.index];
  if (of === undefined || block === undefined) return null;
  const { x, y } = cellAt(layout, of.index, of.ordinal);
  const left = Math.max(0, Math.min(x, width - TIP_WIDTH));
  return (
    <div class="tip" aria-hidden="true" style={{ left: `${left}px`, top: `${y + layout.cell + 8}px` }}>
      {sentenceOf(block, of.ordinal)}
    </div>
  );
}

/** How long a change stands out. */
const FRESH_MS = 1_600;
/** Draws bands that are so near to what is looked at: 5,000 blocks at once where the window is wide. */
const NEAR = "5000px 0px";

/** Is what a canvas shows of one block. */
interface Painted {
  readonly block: BlockDocument;
  /** When a change of it was drawn that still stands out. */
  readonly freshAt?: number;
}

function Band({ band, layout, blocks }: { readonly band: number; readonly layout: MapLayout; readonly blocks: readonly BlockDocument[] }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const shown = useRef({ layout, theme: 0, tiles: new Map<number, Painted>() });
  const isNear = useNearness(canvas);
  const theme = useTheme();
  const [round, setRound] = useState(0);
  const first = band * layout.rowsPerBand * layout.perRow;
  const top = placeOf(layout, first).y - SIZES[layout.size].label;
  const height = Math.min(layout.rowsPerBand * layout.stepY, layout.height - top);
  // Runs again for another round, to draw what no longer stands out.
  useEffect(() => {
    const element = canvas.current;
    if (element === null) return undefined;
    if (!isNear || shown.current.layout !== layout || shown.current.theme !== theme || element.width === 0) {
      // Empties it as well; one that is far away costs no memory.
      element.width = isNear ? Math.round(element.clientWidth * devicePixelRatio) : 0;
      element.height = isNear ? Math.round(height * devicePixelRatio) : 0;
      shown.current = { layout, theme, tiles: new Map() };
    }
    if (!isNear) return undefined;
    const { tiles } = shown.current;
    const last = Math.min(blocks.length, first + layout.rowsPerBand * layout.perRow);
    const todo = tilesToDraw(blocks, first, last, tiles);
    if (todo.length === 0) return undefined;
    const timer = setTimeout(() => setRound((before) => before + 1), FRESH_MS + 50);
    const stop = paint({ canvas: element, layout, palette: paletteOf(element), first, tiles: todo }, ([index, block, fresh]) =>
      tiles.set(index, { block, ...(fresh !== undefined && { freshAt: performance.now() }) }),
    );
    return () => {
      clearTimeout(timer);
      stop();
    };
  }, [blocks, layout, theme, isNear, first, height, round]);
  return <canvas ref={canvas} style={{ top: `${top}px`, height: `${height}px` }} />;
}

function tilesToDraw(
  blocks: readonly BlockDocument[],
  first: number,
  last: number,
  painted: ReadonlyMap<number, Painted>,
): readonly Tile[] {
  const tiles: Tile[] = [];
  for (let index = first; index < last; index++) {
    const block = blocks[index];
    const before = painted.get(index);
    if (block === undefined) continue;
    const isSettled = before?.freshAt !== undefined && performance.now() - before.freshAt > FRESH_MS;
    if (isSettled || isOther(before?.block, block)) tiles.push([index, block, freshOf(before?.block, block)]);
  }
  return tiles;
}

function isOther(before: BlockDocument | undefined, now: BlockDocument): boolean {
  return before?.map !== now.map || before.owner !== now.owner || before.cidr !== now.cidr;
}

/** Lists the addresses of a block that have become something else since it was drawn. */
function freshOf(before: BlockDocument | undefined, now: BlockDocument): ReadonlySet<number> | undefined {
  if (before === undefined || before.cidr !== now.cidr || before.map === now.map) return undefined;
  return new Set([...now.map].flatMap((sign, ordinal) => (sign === before.map.charAt(ordinal) ? [] : [ordinal])));
}

function useNearness(canvas: { readonly current: HTMLCanvasElement | null }): boolean {
  const [isNear, setNear] = useState(false);
  useEffect(() => {
    if (canvas.current === null) return undefined;
    const observer = new IntersectionObserver((entries) => setNear(entries.some(({ isIntersecting }) => isIntersecting)), {
      rootMargin: NEAR,
    });
    observer.observe(canvas.current);
    return () => observer.disconnect();
  }, [canvas]);
  return isNear;
}

/** Counts the changes between light and dark. */
function useTheme(): number {
  const [changes, setChanges] = useState(0);
  useEffect(() => {
    const query = matchMedia("(prefers-color-scheme: dark)");
    const change = () => setChanges((before) => before + 1);
    query.addEventListener("change", change);
    return () => query.removeEventListener("change", change);
  }, []);
  return changes;
}
