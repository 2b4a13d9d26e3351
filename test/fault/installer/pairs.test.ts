/**
 * Pairs of installers that work on one host at the same time, some of them killed: no executable is ever half under its own name, and the
 * next installation removes what the killed ones left.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Installation } from "../../support/installation.ts";
import { BIN_DIR } from "../../support/node.ts";
import { seededRandom } from "../../support/scheduler.ts";

jest.setTimeout(600_000);

const PAIRS = 12;
/** As large as an executable, so that a copy takes its time. */
const BYTES = 48 << 20;
const NAMES = ["tortie", "tortie-ipam", "tortiectl"];

/** A program of one letter: any mixture and any half of it can be told. */
function programOf(host: Installation, letter: string): string {
  const folder = join(host.root, letter);
  mkdirSync(folder);
  const path = join(folder, "program");
  writeFileSync(path, Buffer.alloc(BYTES, letter), { mode: 0o755 });
  return path;
}

function installer(host: Installation, source: string) {
  const argv = ["install", "--force", "--net-dir", host.netDir, "--bin-dir", host.binDir, "--source", source];
  const child = spawn(join(BIN_DIR, "tortiectl"), argv, { env: { PATH: "/usr/bin:/bin" }, stdio: "ignore" });
  return { child, ended: once(child, "close") as Promise<[number | null, string | null]> };
}

/** @returns what is wrong with the executables that are there */
function torn(host: Installation): readonly string[] {
  return host.names(host.binDir).flatMap((name) => {
    if (name.endsWith(".tmp")) return [];
    const bytes = readFileSync(join(host.binDir, name));
    const isWhole = bytes.length === BYTES && bytes.equals(Buffer.alloc(BYTES, bytes[0]));
    return isWhole ? [] : [`${name} has ${bytes.length} bytes`];
  });
}

it.each([
  ["that both go on to their end", false],
  ["that are both killed at any moment", true],
])("Two installers at once, %s, never leave half an executable under its own name", async (_, areKilled) => {
  const random = seededRandom(38);
  using host = new Installation();
  const sources = [programOf(host, "a"), programOf(host, "b")];
  for (let pair = 0; pair < PAIRS; pair++) {
    const running = sources.map((source) => installer(host, source));
    if (areKilled) {
      for (const { child } of running) {
        await Bun.sleep(random() * 400);
        expect({ pair, torn: torn(host) }).toEqual({ pair, torn: [] });
        child.kill("SIGKILL");
      }
    }
    const ends = await Promise.all(running.map(({ ended }) => ended));
    if (!areKilled)
      expect({ pair, ends }).toEqual({
        pair,
        ends: [
          [0, null],
          [0, null],
        ],
      });
    expect({ pair, torn: torn(host) }).toEqual({ pair, torn: [] });
  }
  expect(await installer(host, sources[0] ?? "").ended).toEqual([0, null]);
  expect(torn(host)).toEqual([]);
  expect(host.names(host.binDir)).toEqual(NAMES);
  expect(host.names(host.netDir).filter((name) => name.endsWith(".tmp"))).toEqual([]);
});
