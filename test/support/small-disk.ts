/** A file system of a test's own, a tmpfs that can be filled or made read-only. */
import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { TemporaryDirectory } from "./fixtures.ts";

const BLOCK = Buffer.alloc(4096);

export class SmallDisk implements Disposable {
  readonly #directory = new TemporaryDirectory();
  readonly path = this.#directory.path;
  #fillers = 0;

  constructor(options = "size=1m,nr_inodes=512") {
    execFileSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", this.path]);
  }

  /** Leaves no byte. */
  fillBytes(): void {
    const path = this.#next();
    this.#untilFull(() => writeFileSync(path, BLOCK, { flag: "a" }));
  }

  /** Leaves no inode. */
  fillInodes(): void {
    this.#untilFull(() => writeFileSync(this.#next(), ""));
  }

  /** Gives room again. */
  empty(): void {
    for (; this.#fillers > 0; this.#fillers--) rmSync(join(this.path, `filler-${this.#fillers}`), { force: true });
  }

  setReadOnly(isReadOnly: boolean): void {
    execFileSync("mount", ["-o", `remount,${isReadOnly ? "ro" : "rw"}`, this.path]);
  }

  [Symbol.dispose](): void {
    // Lazily: a process that was killed may still be about to close its files.
    execFileSync("umount", ["-l", this.path]);
    this.#directory[Symbol.dispose]();
  }

  #next(): string {
    return join(this.path, `filler-${++this.#fillers}`);
  }

  #untilFull(add: () => void): void {
    for (;;) {
      try {
        add();
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === "ENOSPC") return;
        throw error;
      }
    }
  }
}
