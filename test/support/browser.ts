/** The page of `tortiectl ui` in Debian's chromium, both on a pretend machine: opened, looked at, and ended with the test. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { BIN_DIR, type Node } from "./node.ts";

const CHROMIUM = "/usr/bin/chromium";
/** Only ends what hangs. */
const LIMIT_MS = 120_000;

/** Is where something is started: a pretend machine, or wherever a command line without change leads to. */
export type Place = Pick<Node, "dir" | "commandLine">;

export const HAS_CHROMIUM = existsSync(CHROMIUM);

/** `tortiectl ui` as it runs. */
export class UiProcess implements AsyncDisposable {
  readonly url: string;
  readonly #child: ChildProcess;
  readonly #ended: Promise<number | null>;

  private constructor(child: ChildProcess, url: string) {
    this.#child = child;
    this.url = url;
    this.#ended = new Promise((done) => void child.once("close", done));
  }

  /** @param args behind `tortiectl ui` */
  static async start(node: Place, args: readonly string[]): Promise<UiProcess> {
    const line = node.commandLine([join(BIN_DIR, "tortiectl"), "ui", "--json", ...args], { env: {} });
    const child = spawn("/usr/bin/setpriv", ["--pdeathsig", "KILL", "--", ...line], { stdio: ["ignore", "pipe", "pipe"] });
    const url = await new Promise<string>((done, failed) => {
      let [out, err] = ["", ""];
      child.stderr.on("data", (chunk: Buffer) => {
        err += chunk;
      });
      child.stdout.on("data", (chunk: Buffer) => {
        out += chunk;
        const [, found] = /"url":"([^"]+)"/.exec(out) ?? [];
        if (found !== undefined) done(found);
      });
      child.once("close", (exit) => failed(new Error(`tortiectl ui ended with ${exit}: ${out}${err}`)));
    });
    return new UiProcess(child, url);
  }

  /** SIGTERM, and its end. @returns the exit status */
  stop(): Promise<number | null> {
    this.#child.kill("SIGTERM");
    return this.#ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#ended;
  }
}

/** A browser in the node's network. It collects what must never happen in a page. */
export class NodeBrowser implements AsyncDisposable {
  readonly #troubles: string[] = [];
  readonly #browser: Browser;

  private constructor(browser: Browser) {
    this.#browser = browser;
  }

  static async start(node: Place): Promise<NodeBrowser> {
    const program = join(node.dir, "browser");
    const line = node.commandLine([CHROMIUM]).map((word) => `'${word.replaceAll("'", "'\\''")}'`);
    writeFileSync(program, `#!/bin/sh\nexec ${line.join(" ")} "$@"\n`, { mode: 0o755 });
    const args = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"];
    return new NodeBrowser(await chromium.launch({ executablePath: program, args, timeout: LIMIT_MS }));
  }

  /** @param script runs in the page before its own */
  async open(url: string, options: BrowserContextOptions = {}, script = ""): Promise<Page> {
    const context = await this.#browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: "reduce", ...options });
    context.setDefaultTimeout(LIMIT_MS);
    const page = await context.newPage();
    page.on("pageerror", (error) => void this.#troubles.push(`error: ${error.message}`));
    page.on("console", (message) => {
      // A server that is away is part of some tests.
      if (message.type() === "error" && !message.text().includes("net::ERR_")) this.#troubles.push(`console: ${message.text()}`);
    });
    page.on("dialog", (dialog) => {
      this.#troubles.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    page.on("request", (request) => {
      if (!request.url().startsWith(new URL(".", url).href) && !request.url().startsWith("data:"))
        this.#troubles.push(`request: ${request.url()}`);
    });
    await page.addInitScript({ content: script });
    await page.goto(url);
    return page;
  }

  /**
   * Closes the pages.
   * @returns what was wrong in them: errors of scripts, refusals by the content security policy, dialogs, and requests that lead elsewhere
   */
  async settle(): Promise<readonly string[]> {
    for (const context of this.#browser.contexts()) await context.close();
    return this.#troubles.splice(0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#browser.close();
  }
}
