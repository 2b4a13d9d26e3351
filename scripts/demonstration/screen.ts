/** Prints the demo's output: coloured on a terminal, plain elsewhere. A false claim ends the demo. */
import picocolors from "picocolors";
import { wantsColor } from "../../cmd/tortiectl/terminal.ts";

/** Reports a false claim or a failed command. */
export class DemoFailure extends Error {}

export class Screen {
  readonly colors = picocolors.createColors(wantsColor(process.env, process.stdout.isTTY === true));
  readonly #parts: number;
  #part = 0;
  #claims = 0;

  /** @param parts number of sections to come */
  constructor(parts: number) {
    this.#parts = parts;
  }

  /** Counts the claims held so far. */
  get claims(): number {
    return this.#claims;
  }

  title(text: string): void {
    this.#line(this.colors.bold(this.colors.cyan(text)));
  }

  section(text: string): void {
    this.#part++;
    this.#line(`\n${this.colors.dim(`${this.#part} of ${this.#parts}`)}  ${this.colors.bold(text)}`);
  }

  /** Prints a command that shows a person the same. */
  command(text: string): void {
    this.#line(`  ${this.colors.dim(`$ ${text}`)}`);
  }

  text(text: string): void {
    this.#line(`  ${text}`);
  }

  /**
   * Says `claim` when `holds`.
   * @throws DemoFailure with what it found instead
   */
  claim(claim: string, holds: boolean, found: unknown): void {
    if (!holds) throw new DemoFailure(`not true: ${claim}\nfound: ${typeof found === "string" ? found : JSON.stringify(found, null, 2)}`);
    this.#claims++;
    this.#line(`  ${this.colors.green("✓")} ${claim}`);
  }

  /** @throws DemoFailure if the number of sections differs from what each announced */
  end(text: string, next: readonly string[]): void {
    if (this.#part !== this.#parts) throw new DemoFailure(`${this.#part} sections were shown, not ${this.#parts}`);
    this.#line(`\n${this.colors.bold(this.colors.green(text))}`);
    for (const line of next) this.#line(line);
  }

  fail(text: string): void {
    process.stderr.write(`\n${this.colors.red("✗ the demo failed:")} ${text}\n`);
  }

  #line(text: string): void {
    process.stdout.write(`${text}\n`);
  }
}
