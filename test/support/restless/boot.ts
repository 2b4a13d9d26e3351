/**
 * What a reboot takes from a node: its run directory, a small tmpfs that can be full, and the id of the boot. Processes, sandboxes and rules
 * are the world's to end.
 */
import { randomUUID } from "node:crypto";
import { closeSync, mkdirSync, mkdtempSync, openSync, readdirSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execaSync } from "execa";

const BOOT_ID = "/proc/sys/kernel/random/boot_id";
/** Enough for an agent with some dozens of endpoints. */
const SIZE = "size=4m,nr_inodes=2048,mode=755";
const CHUNK_BYTES = 65_536;
/** Smallest unit of a tmpfs: what is left after the last chunk. */
const PAGE_BYTES = 4_096;

export class Boot implements Disposable {
  readonly #dir = mkdtempSync(join(tmpdir(), "tortie-boot-"));
  #runDir: string | undefined;

  constructor() {
    this.begin();
  }

  /** Binds of every command of the node. */
  get binds(): Readonly<Record<string, string>> {
    return { [BOOT_ID]: this.#idFile };
  }

  get #idFile(): string {
    return join(this.#dir, "boot_id");
  }

  /** Makes the directory that the agent is to have as its run directory, before the agent starts. */
  mountRun(directory: string): void {
    mkdirSync(directory);
    execaSync("mount", ["-t", "tmpfs", "-o", SIZE, "tmpfs", directory]);
    this.#runDir = directory;
  }

  /** Another boot has begun: /run is empty. */
  begin(): void {
    writeFileSync(this.#idFile, `${randomUUID()}\n`);
    this.emptyRun();
  }

  emptyRun(): void {
    const directory = this.#runDir;
    if (directory === undefined) return;
    for (const name of readdirSync(directory)) rmSync(join(directory, name), { recursive: true, force: true });
  }

  /** Leaves no room for data, or for new files. */
  fill(what: "bytes" | "inodes"): void {
    const directory = join(this.#runDir ?? "", "of-others");
    mkdirSync(directory);
    if (what === "bytes") {
      const file = openSync(join(directory, "bytes"), "w");
      for (const size of [CHUNK_BYTES, PAGE_BYTES]) until(() => writeSync(file, Buffer.alloc(size)));
      closeSync(file);
    } else {
      let count = 0;
      until(() => closeSync(openSync(join(directory, String(++count)), "w")));
    }
  }

  /** Takes away what `fill` has made. */
  makeRoom(): void {
    rmSync(join(this.#runDir ?? "", "of-others"), { recursive: true, force: true });
  }

  [Symbol.dispose](): void {
    if (this.#runDir !== undefined) execaSync("umount", ["--lazy", this.#runDir]);
    rmSync(this.#dir, { recursive: true, force: true });
  }
}

/** Repeats until there is no room left. @throws Error of any other kind */
function until(write: () => unknown): void {
  try {
    for (;;) write();
  } catch (error) {
    const isFull = typeof error === "object" && error !== null && "code" in error && error.code === "ENOSPC";
    if (!isFull) throw error;
  }
}
