/**
 * The page at three widths, in light and dark, with nothing, with much and without its agent: nothing lies beside the screen. The pictures
 * stay in .cache/pictures, to be looked at.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { openLocalDatastore } from "../../lib/datastore/local/local-datastore.ts";
import { NodeBrowser, UiProcess } from "../support/browser.ts";
import { shared } from "../support/fixtures.ts";
import { BIN_DIR } from "../support/node.ts";
import { PolicyAgentNode, policy } from "../support/policy-agent.ts";
import { emptyBlock, fullBlock, sampleAffinity } from "../support/samples.ts";

const PICTURES = ".cache/pictures";
const WIDTHS = [1440, 820, 390] as const;
const THEMES = ["light", "dark"] as const;

const machine = shared(PolicyAgentNode.create);
const browser = shared(() => NodeBrowser.start(machine.node));
const ui = shared(() => UiProcess.start(machine.node, ["--socket", machine.agent.socket, "--datastore", machine.node.datastorePath]));

/** Fills the store as a cluster of some nodes fills it, and this node with pods. */
async function fill(): Promise<void> {
  machine.node.excuse("the blocks of other nodes have addresses without handles", "miscounted", "not-released", "doubled");
  machine.write(
    "policies",
    policy("db", { podSelector: { matchLabels: { app: "db" } }, ingress: [{ from: [{ podSelector: { matchLabels: { app: "web" } } }] }] }),
  );
  const names = ["web-5d8f", "web-9k2m", "db-0", "cache-1", "queue-7", "mail-3"];
  await Promise.all(names.map((name) => machine.attach(name, { labels: { app: name.split("-")[0] ?? "" } })));
  await using store = openLocalDatastore(machine.node.datastorePath);
  for (let node = 2; node <= 30; node++) {
    const [cidr, name] = [`10.244.${Math.floor(node / 4) + 8}.${(node % 4) * 64}/26`, `worker-${node}`];
    const full = fullBlock(cidr, name);
    const used = (node * 37) % 64;
    const allocations = full.allocations.map((index, ordinal) => (ordinal < used && (ordinal * node) % 11 !== 3 ? index : null));
    const unallocated = allocations.flatMap((index, ordinal) => (index === null ? [ordinal] : []));
    await store.blocks.create(cidr, node % 9 === 0 ? emptyBlock(cidr, 64) : { ...full, allocations, unallocated });
    await store.affinities.create({ owner: { type: "host", name }, cidr }, sampleAffinity(name, cidr));
  }
}

async function take(page: Page, name: string): Promise<void> {
  const overhang = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
  await page.screenshot({ path: `${PICTURES}/${name}.png` });
  expect({ name, overhang }).toEqual({ name, overhang: 0 });
}

/** Shows every view at every width and in both themes. */
async function takeAll(name: string, views: readonly string[], settle: (page: Page, view: string) => Promise<unknown>): Promise<void> {
  mkdirSync(PICTURES, { recursive: true });
  for (const width of WIDTHS) {
    for (const colorScheme of THEMES) {
      const page = await browser.open(ui.url, { viewport: { width, height: 900 }, colorScheme });
      for (const view of views) {
        await page.goto(`${ui.url}#/${view}`);
        await settle(page, view);
        await take(page, [name, view.replaceAll(/\W/g, "-"), width, colorScheme].join("-"));
      }
      await page.context().close();
    }
  }
}

/** Waits until every question that the view asks is answered. The page's policy forbids what Playwright would evaluate. */
async function idle(page: Page): Promise<void> {
  await page.locator("main .command, main .empty, main .trouble").first().waitFor();
  await page.locator("main [aria-busy=true]").first().waitFor({ state: "detached" });
}

afterEach(async () => expect(await browser.settle()).toEqual([]));

describe("the page", () => {
  it("has its place on every screen while there is nothing to show", async () => {
    await takeAll("empty", ["addresses", "endpoints"], idle);
  });

  it("has its place on every screen when there is much", async () => {
    await fill();
    const listed = ["node", "endpoints", "--json", "--socket", machine.agent.socket];
    const [first] = JSON.parse((await machine.node.run([join(BIN_DIR, "tortiectl"), ...listed])).stdout);
    const address = first.status.networking.addresses[0].address;
    await takeAll(
      "full",
      ["addresses", `addresses/${address}`, `endpoints/${first.id}`, "bursts", "routes", "policy", "doctor"],
      async (page) => {
        await idle(page);
        await page.waitForTimeout(300);
      },
    );
  });

  it("says that the agent is away on every screen", async () => {
    await machine.agent.kill();
    await takeAll("broken", ["addresses", "endpoints"], (page) => page.getByText("No agent answers", { exact: true }).waitFor());
  });
});
