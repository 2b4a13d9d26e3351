/**
 * Executables to be measured, as copies that are replaced now and then. Where a file happens to lie in the page cache, and for how long it
 * has lain there unused, makes up to 8 % of the time of a process that is over after 40 ms (docs/project/benchmarks.md): several copies say more
 * than many calls of one.
 */
import { closeSync, copyFileSync, fsyncSync, linkSync, mkdirSync, mkdtempSync, openSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";

export interface Original {
  readonly path: string;
  /** Further names of the copy, in the same folder. */
  readonly names?: readonly string[];
}

export class Copies implements Disposable {
  /** The copies are here, under the base names of the originals, at every time. */
  readonly directory = mkdtempSync(join(tmpdir(), "tortie-copies-"));
  readonly #originals: readonly Original[];

  constructor(originals: readonly Original[]) {
    this.#originals = originals;
    this.renew();
  }

  pathOf(original: string): string {
    return join(this.directory, basename(original));
  }

  /** They are on the disk when this returns: writing them disturbs nobody later. */
  renew(): void {
    rmSync(this.directory, { recursive: true, force: true });
    mkdirSync(this.directory);
    for (const { path, names = [] } of this.#originals) {
      const copy = this.pathOf(path);
      copyFileSync(path, copy);
      const fd = openSync(copy, "r");
      fsyncSync(fd);
      closeSync(fd);
      for (const name of names) linkSync(copy, join(this.directory, name));
    }
  }

  [Symbol.dispose](): void {
    rmSync(this.directory, { recursive: true, force: true });
  }
}
