/**
 * The map of 5,000 nodes with a block each, 320,000 addresses: all of them are drawn, and the page answers meanwhile. How long its longest
 * pause was is printed, and compared with what drawing without a break costs the same browser.
 */
import { join } from "node:path";
import type { Page } from "playwright-core";
import { openLocalDatastore } from "../../lib/datastore/local/local-datastore.ts";
import type { PoolsDocument } from "../../ui/contract.ts";
import { NodeBrowser, UiProcess } from "../support/browser.ts";
import { shared } from "../support/fixtures.ts";
import { signsOf } from "../support/map-pixels.ts";
import { BIN_DIR, Node } from "../support/node.ts";
import { samplePool } from "../support/samples.ts";

const NODES = 5_000;
const BLOCK = 64;

const node = shared(Node.create);
const browser = shared(() => NodeBrowser.start(node));

/** Makes the pool, and of each node a block that is more or less full. */
async function fill(): Promise<void> {
  node.excuse("the store has blocks alone", "miscounted", "not-released");
  await using store = openLocalDatastore(node.datastorePath);
  await store.pools.create("many", samplePool("many", "10.128.0.0/9", { blockSize: 26 }));
  for (let index = 0; index < NODES; index++) {
    const cidr = `10.${128 + (index >> 10)}.${(index >> 2) & 255}.${(index & 3) * BLOCK}/26`;
    const used = (index * 29) % (BLOCK + 1);
    const allocations = Array.from({ length: BLOCK }, (_, ordinal) => (ordinal < used ? 0 : null));
    const name = `worker-${index}`;
    await store.blocks.create(cidr, {
      cidr,
      affinity: { type: "host", name },
      allocations,
      unallocated: allocations.flatMap((taken, ordinal) => (taken === null ? [ordinal] : [])),
      attributes: [{ handleId: `handle-${index}`, activeOwner: { node: name } }],
      sequenceNumber: 1n,
      sequenceNumberForAllocation: {},
    });
  }
}

/** Notes in the page how long its main thread was busy without a break, for 50 ms and more (Long Tasks API). */
const OBSERVE =
  "window.pauses = []; new PerformanceObserver((list) => { for (const { duration } of list.getEntries()) window.pauses.push(duration); }).observe({ type: 'longtask' });";

interface Drawing {
  fillStyle: string;
  fillRect(x: number, y: number, width: number, height: number): void;
  getImageData(x: number, y: number, width: number, height: number): unknown;
}
interface Window {
  readonly pauses: readonly number[];
  readonly document: { createElement(name: "canvas"): { width: number; height: number; getContext(kind: "2d"): Drawing } };
}

/** @returns the pauses so far, and what the same squares cost this browser when they are drawn one by one without a break */
function figures(page: Page): Promise<{ readonly pauses: readonly number[]; readonly atOnce: number }> {
  return page.evaluate((count) => {
    const { pauses, document } = globalThis as unknown as Window;
    const canvas = document.createElement("canvas");
    canvas.width = 1_200;
    canvas.height = 3_400;
    const drawing = canvas.getContext("2d");
    const begin = performance.now();
    for (let index = 0; index < count; index++) {
      drawing.fillStyle = index % 3 === 0 ? "#2f8068" : "#e6e3dc";
      drawing.fillRect((index % 400) * 3, Math.floor(index / 400) * 3, 3, 3);
    }
    drawing.getImageData(0, 0, 1, 1);
    return { pauses: [...pauses], atOnce: performance.now() - begin };
  }, NODES * BLOCK);
}

describe("a cluster of 5,000 nodes", () => {
  it("is drawn whole, in pieces so short that the page answers meanwhile", async () => {
    await fill();
    const args = ["--datastore", node.datastorePath, "--socket", join(node.dir, "none.sock")];
    await using ui = await UiProcess.start(node, args);

    const page = await browser.open(ui.url, {}, OBSERVE);

    await page.locator(".map canvas").first().waitFor();
    const { stdout } = await node.run([
      join(BIN_DIR, "tortiectl"),
      "ipam",
      "show",
      "--blocks",
      "--json",
      "--datastore",
      node.datastorePath,
    ]);
    const [pool] = (JSON.parse(stdout) as PoolsDocument).pools;
    const blocks = pool?.blocks ?? [];
    const wanted = blocks.map(({ map }) => map).join("");
    const last = blocks.at(-1)?.map ?? "";
    while ((await signsOf(page, 0, blocks, "small", blocks.length - 1)).join("") !== last) await page.waitForTimeout(200);
    const drawn = (await signsOf(page, 0, blocks, "small")).join("");

    expect(wanted.length).toBe(NODES * BLOCK);
    expect(drawn === wanted).toBe(true);
    const { pauses, atOnce } = await figures(page);
    const longest = Math.max(0, ...pauses);
    const text = longest === 0 ? "below 50" : longest.toFixed(0);
    process.stdout.write(`longest pause of the page: ${text} ms; the same squares without a break: ${atOnce.toFixed(0)} ms\n`);
    expect(longest / atOnce).toBeLessThan(1);
  });
});
