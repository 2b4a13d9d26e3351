/** Reads the page's map of addresses back from the pixels of its canvases. */
import type { Page } from "playwright-core";
import type { BlockDocument } from "../../ui/contract.ts";
import { cellAt, layoutOf, type MapSize } from "../../ui/map/layout.ts";

/** Are the parts of the page's own types that are needed here; tests are compiled without those of browsers. */
interface Canvas {
  readonly offsetTop: number;
  readonly width: number;
  readonly height: number;
  getContext(kind: "2d"): { getImageData(x: number, y: number, width: number, height: number): { readonly data: Uint8ClampedArray } };
}
interface Frame {
  querySelectorAll(selector: "canvas"): Iterable<Canvas>;
}
interface Window {
  getComputedStyle(of: Frame): { getPropertyValue(name: string): string };
}

/**
 * @param map counts the maps of the page from 0
 * @param from reads the blocks from this one on
 * @returns of each block a sign for each address, as the JSON has them; "?" for what is not drawn
 */
export async function signsOf(
  page: Page,
  map: number,
  blocks: readonly Pick<BlockDocument, "map">[],
  size: MapSize,
  from = 0,
): Promise<readonly string[]> {
  const frame = page.locator(".map").nth(map);
  const width = Math.floor((await frame.boundingBox())?.width ?? 0);
  const layout = layoutOf(blocks, width, size);
  const wantedBlocks = blocks.slice(from);
  const points = wantedBlocks.flatMap((block, index) =>
    Array.from(block.map, (_, ordinal) => cellAt(layout, from + index, ordinal)).map(({ x, y }) => [x + 1, y + 1]),
  );
  const text = await frame.evaluate((element: unknown, wanted) => {
    const [top, window] = [element as Frame, globalThis as unknown as Window];
    const style = window.getComputedStyle(top);
    const names = { used: "u", borrowed: "b", cooling: "c", reserved: "r", free: "." };
    const signs = new Map(Object.entries(names).map(([name, sign]) => [style.getPropertyValue(`--${name}`).trim(), sign]));
    const canvases = [...top.querySelectorAll("canvas")];
    const data = canvases.map((canvas) =>
      canvas.width === 0 ? undefined : canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data,
    );
    return wanted
      .map(([x = 0, y = 0]) => {
        const at = canvases.findIndex((canvas) => y >= canvas.offsetTop && y < canvas.offsetTop + canvas.height);
        const pixel = 4 * ((y - (canvases[at]?.offsetTop ?? 0)) * (canvases[at]?.width ?? 0) + x);
        const hex = [0, 1, 2].map((part) => (data[at]?.[pixel + part] ?? 0).toString(16).padStart(2, "0"));
        return signs.get(`#${hex.join("")}`) ?? "?";
      })
      .join("");
  }, points);
  let at = 0;
  return wantedBlocks.map(({ map: wanted }) => {
    at += wanted.length;
    return text.slice(at - wanted.length, at);
  });
}
