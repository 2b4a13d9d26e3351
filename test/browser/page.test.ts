/** `tortiectl ui` in a real browser: what it shows is what `tortiectl … --json` says, and nobody else sees or changes anything. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { Locator, Page } from "playwright-core";
import type { EndpointModel } from "../../agent/api/endpoint-schema.ts";
import type { Explanation } from "../../doctor/explain/explanation.ts";
import { openLocalDatastore } from "../../lib/datastore/local/local-datastore.ts";
import type { PoolsDocument } from "../../ui/contract.ts";
import { duration, grouped } from "../../ui/format.ts";
import { cellAt, layoutOf } from "../../ui/map/layout.ts";
import { NodeBrowser, UiProcess } from "../support/browser.ts";
import { shared } from "../support/fixtures.ts";
import { signsOf } from "../support/map-pixels.ts";
import { BIN_DIR } from "../support/node.ts";
import { eventually, PolicyAgentNode, policy } from "../support/policy-agent.ts";
import { reach } from "../support/policy-node.ts";
import { emptyBlock, fullBlock } from "../support/samples.ts";
import { words } from "../support/words.ts";

const machine = shared(async () => {
  const made = await PolicyAgentNode.create();
  made.node.excuse("blocks and endpoints of others are written by the test", "miscounted", "not-released", "not-granted", "unasked");
  const onlyWeb1 = {
    podSelector: { matchLabels: { app: "db" } },
    ingress: [{ from: [{ podSelector: { matchLabels: { app: "none" } } }] }],
  };
  made.write("policies", policy("close-db", onlyWeb1));
  return made;
});
/** Are web-1, web-2 and db-1. */
const pods = shared(async () => [
  await machine.attach("web-1", { labels: { app: "web" } }),
  await machine.attach("web-2", { labels: { app: "web" } }),
  await machine.attach("db-1", { labels: { app: "db" } }),
]);
const browser = shared(() => NodeBrowser.start(machine.node));
const ui = shared(() => UiProcess.start(machine.node, here()));

/** Options of commands about this machine. */
const here = () => ["--socket", machine.agent.socket, "--datastore", machine.node.datastorePath];

/** Runs a command with --json. */
async function json<T>(...words: readonly string[]): Promise<T> {
  return JSON.parse((await machine.node.run([join(BIN_DIR, "tortiectl"), ...words, "--json"], { env: {} })).stdout);
}

/** Texts of a table's cells, row by row. */
async function rowsOf(page: Page, table = "main table"): Promise<readonly (readonly string[])[]> {
  const rows = await page.locator(`${table} tbody tr`).all();
  return Promise.all(rows.map(async (row) => (await row.locator("th, td").allInnerTexts()).map((text) => text.trim())));
}

async function textOf(locator: Locator): Promise<string> {
  return (await locator.allInnerTexts()).join(" ").trim();
}

/** Facts by name, as a list of facts shows them. */
async function factsOf(page: Page, within: string): Promise<Readonly<Record<string, string>>> {
  const facts = page.locator(`${within} dl`).first().locator("div");
  return Object.fromEntries(
    await Promise.all((await facts.all()).map(async (one) => [await textOf(one.locator("dt")), await textOf(one.locator("dd"))])),
  );
}

const endpoints = () => json<readonly EndpointModel[]>("node", "endpoints", "--socket", machine.agent.socket);
const pools = () => json<PoolsDocument>("ipam", "show", "--blocks", "--datastore", machine.node.datastorePath);

afterEach(async () => expect(await browser.settle()).toEqual([]));

describe("the page of tortiectl ui", () => {
  it("shows pools and blocks as tortiectl ipam show --blocks --json says", async () => {
    const page = await browser.open(ui.url);
    await page.getByText("table", { exact: true }).click();
    await page.locator("main table").first().waitFor();

    const said = (await pools()).pools;

    const figures = said.flatMap(({ blocks }) =>
      blocks.map(({ cidr, owner, ...block }) => [
        cidr,
        owner ?? "none",
        ...(["used", "borrowed", "cooling", "reserved", "free"] as const).map((standing) => grouped(block[standing])),
      ]),
    );
    expect(figures.length).toBeGreaterThan(0);
    expect(await rowsOf(page)).toEqual(figures);
    expect(await page.locator(".pool h2").allInnerTexts()).toEqual(said.map(({ cidr }) => cidr));
  });

  it("shows endpoints and the life of one as tortiectl node says", async () => {
    const page = await browser.open(`${ui.url}#/endpoints`);
    await page.locator("table.endpoints").waitFor();

    const said = await endpoints();
    const shown = said.map(({ status: { state, networking, "external-identifiers": names } }) => [
      `${names["k8s-namespace"]}/${names["k8s-pod-name"]}`,
      state,
      networking.addresses.map(({ address }) => address).join(" "),
      networking["interface-name"],
    ]);
    expect((await rowsOf(page)).map((cells) => cells.slice(0, 4).map((text) => text.replace(/^✓\s*/, "")))).toEqual(shown);

    await page.getByRole("button", { name: "shop/db-1" }).click();
    await page.locator(".panel .timeline").first().waitFor();
    const id = String(said.find(({ status }) => status["external-identifiers"]["k8s-pod-name"] === "db-1")?.id);
    const question = ["node", "endpoint", id, "--socket", machine.agent.socket];
    const { log } = await json<{ log: { message: string; state: string }[] }>(...question);
    const lines = await page.locator(".panel .timeline").first().locator("li > div").allInnerTexts();
    expect(lines).toEqual(log.toReversed().map(({ state, message }) => `${state} ${message}`));
  });

  it("explains an address that is clicked on the map", async () => {
    const page = await browser.open(ui.url);
    const [pool] = (await pools()).pools;
    const box = await page.locator(".map").first().boundingBox();
    const layout = layoutOf(pool?.blocks ?? [], Math.floor(box?.width ?? 0), "large");
    const { x, y } = cellAt(layout, 0, 1);
    await page
      .locator(".map")
      .first()
      .click({ position: { x: x + layout.cell / 2, y: y + layout.cell / 2 } });

    await page.locator(".panel .explanation").waitFor();

    const address = await textOf(page.locator(".panel h2"));
    const facts = await json<Record<string, string>>("ipam", "show", "--ip", address, "--datastore", machine.node.datastorePath);
    expect(await factsOf(page, ".panel")).toMatchObject({
      standing: facts.standing,
      pod: facts.pod,
      handle: facts.handle,
      block: facts.block,
    });
    const { summary, next } = await json<{ summary: string; next: string }>("explain", "ip", address, ...here());
    expect(await textOf(page.locator(".panel .explanation"))).toContain(summary);
    expect(await textOf(page.locator(".panel .explanation"))).toContain(next);
  });

  it("paints each address of the map in the colour of its standing", async () => {
    const page = await browser.open(ui.url);
    await page.getByText("small", { exact: true }).click();
    await page.waitForTimeout(500);
    const said = (await pools()).pools;
    for (const [index, { blocks }] of said.entries())
      expect(await signsOf(page, index, blocks, "small")).toEqual(blocks.map(({ map }) => map));
  });

  it("says who may reach a pod and whom it may reach, as tortiectl policy explain says", async () => {
    const page = await browser.open(`${ui.url}#/endpoints`);
    await page.getByRole("button", { name: "shop/db-1" }).click();
    await page.getByRole("button", { name: "Ask for each endpoint" }).click();
    await page.locator(".reach tbody tr").nth(1).waitFor();

    const rows = (await rowsOf(page, "table.reach")).map(([other = "", into = "", outOf = ""]) => [
      other,
      into.slice(0, 1),
      outOf.slice(0, 1),
    ]);

    const verdict = async (from: string, to: string) => {
      const question = ["policy", "explain", from, to, "80"];
      const { verdicts } = await json<{ verdicts: { verdict: string }[] }>(...question, "--socket", machine.agent.socket);
      return verdicts.every((one) => one.verdict === "allow") ? "✓" : "✗";
    };
    const names = ["shop/web-1", "shop/web-2"];
    const said = await Promise.all(names.map(async (name) => [name, await verdict(name, "shop/db-1"), await verdict("shop/db-1", name)]));
    expect(rows.toSorted()).toEqual(said);
    expect(said.flat()).toContain("✗");
  });

  it("shows what was dropped of a pod, and by which policy, as tortiectl policy drops says", async () => {
    const [web, , db] = pods;
    if (web === undefined || db === undefined) throw new Error("the pods are missing");
    const remembered = async () => {
      const question = ["policy", "drops", "shop/db-1", "--socket", machine.agent.socket];
      return (await json<{ drops: { direction: string; reason: string; explanation: string }[] }>(...question)).drops;
    };
    expect(await reach(web, db, "tcp", 80)).not.toBe("ok");
    expect(await eventually(true, async () => (await remembered()).length > 0)).toBe(true);

    const page = await browser.open(`${ui.url}#/endpoints`);
    await page.getByRole("button", { name: "shop/db-1" }).click();
    const shown = page.locator("section", { has: page.getByRole("heading", { name: "Last drops" }) }).locator("ol.timeline li");
    await shown.first().waitFor();

    const said = (await remembered()).toReversed();
    expect(await shown.locator("strong").allInnerTexts()).toEqual(said.map(({ direction, reason }) => `${direction} ${reason}`));
    expect(await shown.locator("p").allInnerTexts()).toEqual(said.map(({ explanation }) => explanation));
    expect(said[0]?.explanation).toContain("shop/close-db");
  });

  it("shows the steps of each ADD of a burst as tortiectl explain says", async () => {
    const page = await browser.open(`${ui.url}#/bursts`);
    await page.locator(".waterfall ol li").first().waitFor();
    const rows = await page.locator(".waterfall ol li").all();
    const shown = new Map(
      await Promise.all(
        rows.map(async (row) => [await textOf(row.locator(".who")), (await row.locator(".hidden").textContent()) ?? ""] as const),
      ),
    );
    expect(shown.size).toBeGreaterThan(0);

    for (const [name, text] of shown) {
      const { history } = await json<Explanation>("explain", "container", `cid-${name.replace(/^shop\//, "")}`, ...here());
      const steps = history.find(({ event }) => event === "add")?.steps ?? [];
      expect(steps.length).toBeGreaterThan(1);
      expect(text).toContain(steps.map((step) => `, ${step.name} ${duration(step.milliseconds)}`).join(""));
    }
  });

  it("shows doctor's results as tortiectl doctor --json says", async () => {
    const page = await browser.open(`${ui.url}#/doctor`);
    await page.locator(".counts").waitFor();

    const { results } = await json<{ results: { status: string }[] }>("doctor", "--socket", machine.agent.socket);

    const counts = await page.locator(".counts strong").allInnerTexts();
    const said = ["failed", "warning", "ok", "skipped"].map((word) => String(results.filter(({ status }) => status === word).length));
    expect(counts).toEqual(said);
    expect(await page.locator(".results li").count()).toBe(results.length);
  });

  it("shows a pod that is added meanwhile, and lets go of one that is removed", async () => {
    const page = await browser.open(ui.url);
    await page.locator(".share p").first().waitFor();
    const before = await textOf(page.locator(".share p").first());

    const pod = await machine.attach("late-1");

    await page.locator(".share p").first().filter({ hasNotText: before }).waitFor();
    await page.getByRole("link", { name: "Endpoints" }).click();
    await page.getByRole("button", { name: "shop/late-1" }).waitFor();
    await machine.detach(pod);
    await page.getByRole("button", { name: "shop/late-1" }).waitFor({ state: "detached" });
  });

  it("is walked on by keys alone, and names everything that has the focus", async () => {
    const page = await browser.open(ui.url);
    await page.locator(".map").first().focus();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
    const [block] = (await pools()).pools[0]?.blocks ?? [];
    await page
      .locator(".map [aria-live]")
      .first()
      .filter({ hasText: `block ${block?.cidr}` })
      .waitFor();
    await page.keyboard.press("Enter");
    await page.locator(".panel .explanation").waitFor();
    const address = await textOf(page.locator(".panel h2"));
    await page.getByRole("button", { name: new RegExp(`^${address.replaceAll(".", "\\.")} `) }).focus();
    await page.keyboard.press("ArrowRight");
    await page.locator(".panel h2").filter({ hasNotText: address }).waitFor();

    const unnamed = await page
      .locator("a, button, input, select")
      .evaluateAll((elements) =>
        (elements as { textContent: string; labels?: { length: number }; getAttribute(name: string): string | null }[])
          .filter((one) => one.textContent.trim() === "" && one.getAttribute("aria-label") === null && (one.labels?.length ?? 0) === 0)
          .map((one) => String(one.getAttribute("class"))),
      );
    expect(unnamed).toEqual([]);
    expect(await page.locator("h1").count()).toBe(1);
    expect(await page.locator("main").count()).toBe(1);
  });

  it("says that the agent is away, and goes on when it is there again", async () => {
    const page = await browser.open(ui.url);
    await page.getByText("agent ok", { exact: true }).waitFor();
    await machine.agent.kill();
    await page.getByText("No agent answers", { exact: true }).waitFor();
    expect(await page.locator(".pool").count()).toBeGreaterThan(0);
    await machine.agent.restart();
    await page.getByText("No agent answers", { exact: true }).waitFor({ state: "detached" });
  });
});

describe("names of others", () => {
  const script = "<script>document.title='taken'</script><img src=x onerror=alert(1)>";
  const long = "x".repeat(64 * 1024);
  const turned = "\u202egnp.exe\u2066\u0007";

  it("do nothing, wherever they stand", async () => {
    await using store = openLocalDatastore(machine.node.datastorePath);
    for (const [index, name] of [script, long, turned].entries()) {
      const cidr = `10.244.77.${index * 64}/26`;
      const full = fullBlock(cidr, name);
      const attributes = full.attributes.map((one) => ({
        ...one,
        handleId: name,
        activeOwner: { node: name, namespace: name, pod: name },
      }));
      await store.blocks.create(cidr, { ...full, attributes });
    }
    await store.blocks.create("10.244.78.0/26", emptyBlock("10.244.78.0/26", 64));
    machine.write("hostile", {
      ...policy("hostile", { podSelector: {} }),
      metadata: { name: script.slice(0, 60), namespace: "shop" },
    });
    const page = await browser.open(ui.url);
    await page.getByText("table", { exact: true }).click();
    await page.getByText(script, { exact: false }).first().waitFor();
    const texts = await textOf(page.locator("main table").first());
    expect(texts).toContain("\\u202egnp.exe\\u2066\\u0007");
    expect(texts).toContain("(65541 characters)");
    expect(texts.length).toBeLessThan(8_000);
    for (const address of ["10.244.77.1", "10.244.77.65", "10.244.77.129"]) {
      await page.goto(`${ui.url}#/addresses/${address}`);
      await page.locator(".panel h2").filter({ hasText: address }).waitFor();
      await page.locator(".panel [aria-busy=true]").first().waitFor({ state: "detached" });
    }
    await page.goto(`${ui.url}#/policy`);
    await page.locator("main [aria-busy=true]").first().waitFor({ state: "detached" });
    await page.goto(`${ui.url}#/endpoints/${encodeURIComponent(`${script}`)}`);
    await page.locator(".panel .trouble").first().waitFor();
    expect(await page.title()).toBe("Endpoints – Tortie");
    expect(await page.locator("main script, main img, main iframe").count()).toBe(0);
  });
});

describe("the server of the page", () => {
  /** Asks from the node, with another Host header where one is given. */
  async function ask(path: string, host?: string, method = "GET"): Promise<{ readonly status: number; readonly headers: string }> {
    const { origin } = new URL(ui.url);
    const curl = [...words`/usr/bin/curl -s -i -m 5 --path-as-is -X`, method];
    const { stdout } = await machine.node.run([...curl, ...(host === undefined ? [] : ["-H", `Host: ${host}`]), `${origin}${path}`]);
    return { status: Number(/^HTTP\/1.1 (\d+)/.exec(stdout)?.[1]), headers: stdout.split("\r\n\r\n")[0]?.toLowerCase() ?? "" };
  }

  const token = () => new URL(ui.url).pathname.split("/")[1] ?? "";

  it("gives nothing to whoever does not know the token", async () => {
    const wrong = `${token().slice(0, -1)}${token().endsWith("A") ? "B" : "A"}`;
    const paths = ["", "page.js", "page.css", "events", "ask/pools", "nothing"];
    for (const path of [
      ...paths.map((one) => `/${one}`),
      ...paths.map((one) => `/${wrong}/${one}`),
      "/%zz",
      `//${token()}/`,
      `/?${token()}`,
    ]) {
      expect([path, (await ask(path)).status]).toEqual([path, 401]);
    }
    expect((await ask(`/${token()}/`)).status).toBe(200);
  });

  it("refuses the names of other hosts, whose pages could lead a browser here", async () => {
    for (const host of ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1"]) {
      expect([host, (await ask(`/${token()}/`, host)).status]).toEqual([host, 403]);
    }
    for (const host of ["127.0.0.1:9999", "localhost:8080"]) expect([host, (await ask(`/${token()}/`, host)).status]).toEqual([host, 200]);
  });

  it("lets no other page read, keep or frame what it says, and changes nothing", async () => {
    const { headers } = await ask(`/${token()}/ask/status`);
    for (const wanted of [
      "cache-control: no-store",
      "referrer-policy: no-referrer",
      "x-content-type-options: nosniff",
      "default-src 'none'",
    ])
      expect(headers).toContain(wanted);
    expect(headers).toContain("frame-ancestors 'none'");
    expect(headers).not.toContain("access-control-");
    for (const method of ["POST", "PUT", "DELETE"]) expect((await ask(`/${token()}/ask/status`, undefined, method)).status).toBe(404);
    expect((await ask(`/${token()}/ask/endpoint?id=--socket=/tmp/other.sock`)).status).toBe(400);
    expect((await ask(`/${token()}/ask/toString`)).status).toBe(404);
  });

  it("ends with a signal, also while a page is open", async () => {
    const other = await UiProcess.start(machine.node, here());
    const page = await browser.open(other.url);
    await page.locator(".pool").first().waitFor();

    expect(await other.stop()).toBe(0);

    await page.getByText("Connection lost", { exact: true }).waitFor();
  });
});

describe("the files of the page", () => {
  it("have 150 KB at most as they are sent compressed", () => {
    const files = ["page.js", "page.css", "page.html"].map((name) => readFileSync(`dist/ui/${name}.txt`));
    expect(gzipSync(Buffer.concat(files)).length).toBeLessThan(150_000);
  });
});
