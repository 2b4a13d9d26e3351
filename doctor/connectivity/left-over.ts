/**
 * Writes down which attachments a test makes on a host, before it makes them, so that whoever comes after a killed one can remove them: the
 * next test, or `tortiectl connectivity clean`.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { field, isText, listOf, parseObject } from "../../lib/json/decode.ts";
import { ifReadable } from "../../lib/system/files.ts";
import { writeWhole } from "../../lib/system/write-whole.ts";

const FOLDER = "tortie-connectivity";
const isTexts = listOf(isText);

/** One test's attachments: the list they belong to, and their containers. */
export interface Attached {
  readonly conflist: string;
  readonly containers: readonly string[];
}

/** @param cacheDir where the results of attachments are kept, which outlives a boot as the addresses do */
export function remember(cacheDir: string, attached: Attached): void {
  mkdirSync(join(cacheDir, FOLDER), { recursive: true, mode: 0o700 });
  writeWhole(fileOf(cacheDir, process.pid), JSON.stringify(attached), 0o600);
}

export function forget(cacheDir: string, pid = process.pid): void {
  rmSync(fileOf(cacheDir, pid), { force: true });
}

/** Lists what tests have left whose process is gone; a file that nobody can read is passed over. */
export function leftBehind(cacheDir: string): readonly (Attached & { readonly pid: number })[] {
  const names = ifReadable(() => readdirSync(join(cacheDir, FOLDER))) ?? []; // none: no test has ever run here
  return names.flatMap((name) => {
    const [, pid] = /^(\d+)\.json$/.exec(name) ?? [];
    if (pid === undefined || isTest(Number(pid))) return [];
    try {
      const read = parseObject(readFileSync(join(cacheDir, FOLDER, name), "utf8"));
      return [{ pid: Number(pid), conflist: field(read, "conflist", isText), containers: field(read, "containers", isTexts) }];
    } catch {
      return [];
    }
  });
}

function fileOf(cacheDir: string, pid: number): string {
  return join(cacheDir, FOLDER, `${pid}.json`);
}

/** A process id may have passed to another program. */
function isTest(pid: number): boolean {
  return ifReadable(() => readFileSync(`/proc/${pid}/cmdline`, "latin1").split("\0").includes("connectivity")) ?? false;
}
