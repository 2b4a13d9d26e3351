import { lstatSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type RotationLimits, rotate } from "../../../../lib/log/rotate.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";

const directory = fresh(() => new TemporaryDirectory());
let file: string;
beforeEach(() => {
  file = join(directory.path, "cni.log");
});

const LIMITS: RotationLimits = { maxBytes: 10, maxAgeDays: 30, maxCount: 10 };
const at = (time: string) => () => new Date(time);

describe("rotation of a log file", () => {
  it("moves the file aside, compressed, with its mode", () => {
    writeFileSync(file, "a line that is long enough\n", { mode: 0o640 });
    rotate(file, LIMITS, at("2026-11-21T09:24:26.179Z"));
    const [rotated = "", ...others] = logs();
    expect(rotated).toMatch(new RegExp(`^cni\\.log-2026-11-21T09-24-26\\.179Z-${process.pid}\\.\\d+\\.zst$`));
    expect(others).toEqual([]);
    expect(textOf(rotated)).toBe("a line that is long enough\n");
    expect(statSync(join(directory.path, rotated)).mode & 0o777).toBe(0o640);
  });

  it("is read back whole, however many pieces it was compressed in", () => {
    const text = "0123456789abcdef\n".repeat(100_000);
    writeFileSync(file, text);
    rotate(file, LIMITS);
    const [rotated = ""] = logs();
    expect(textOf(rotated) === text).toBe(true);
    expect(statSync(join(directory.path, rotated)).size).toBeLessThan(text.length / 10);
  });

  it("leaves a file alone that somebody else has rotated meanwhile", () => {
    writeFileSync(file, "small\n");
    rotate(file, LIMITS);
    expect(logs()).toEqual(["cni.log"]);
    expect(readFileSync(file, "utf8")).toBe("small\n");
  });

  it("keeps the newest ones, as many as asked for", () => {
    for (let second = 10; second < 15; second++) {
      writeFileSync(file, `line of second ${second}\n`);
      rotate(file, { ...LIMITS, maxCount: 2 }, at(`2026-11-21T09:24:${second}.000Z`));
    }
    expect(logs().map(textOf)).toEqual(["line of second 13\n", "line of second 14\n"]);
  });

  it("removes those that are too old", () => {
    writeFileSync(file, "first first\n");
    rotate(file, LIMITS, at("2026-10-01T00:00:00.000Z"));
    writeFileSync(file, "second second\n");
    rotate(file, LIMITS, at("2026-10-02T00:00:00.000Z"));
    writeFileSync(file, "third third\n");
    rotate(file, LIMITS, at("2026-10-31T12:00:00.000Z"));
    expect(logs().map(textOf)).toEqual(["second second\n", "third third\n"]);
  });

  it("counts the uncompressed file of a process that was killed, and removes nobody else's files", () => {
    const killed = "cni.log-2026-01-01T00-00-00.000Z-77.0";
    const others = ["cni.log-backup", "cni.log-2026.zst", "other.log-2026-01-01T00-00-00.000Z-77.0"];
    for (const name of [killed, ...others]) writeFileSync(join(directory.path, name), "x");
    writeFileSync(file, "long enough\n");
    rotate(file, LIMITS, at("2026-11-21T09:24:26.179Z"));
    expect(logs()).not.toContain(killed);
    expect(logs()).toEqual(expect.arrayContaining(others));
  });

  it("follows a symbolic link: the file moves, the link stays", () => {
    const target = join(directory.path, "target.log");
    writeFileSync(target, "long enough\n");
    symlinkSync(target, file);
    rotate(file, LIMITS);
    expect(lstatSync(file).isSymbolicLink()).toBe(true);
    expect(logs().filter((name) => name.startsWith("target.log-"))).toHaveLength(1);
  });
});

describe("many processes that log into one file", () => {
  it("lose no line while it is rotated under their hands", async () => {
    const [processes, linesEach] = [6, 400];
    const children = Array.from({ length: processes }, (_, index) =>
      Bun.spawn([process.execPath, join(__dirname, "append-lines.ts"), file, `p${index}`, String(linesEach), "0.005"], { stderr: "pipe" }),
    );
    const problems = await Promise.all(children.map((child) => new Response(child.stderr).text()));
    expect(problems.join("")).toBe("");

    const lines = logs().flatMap((name) => textOf(name).split("\n").slice(0, -1));
    expect(lines.filter((line) => !/^p\d \d+ x{80}$/.test(line))).toEqual([]);
    const wanted = Array.from({ length: processes }, (_, index) =>
      Array.from({ length: linesEach }, (_, line) => `p${index} ${line}`),
    ).flat();
    const found = new Set(lines.map((line) => line.slice(0, line.lastIndexOf(" "))));
    expect(wanted.filter((line) => !found.has(line))).toEqual([]);
    expect(logs().length).toBeGreaterThan(10);
    // All were compressed: no rotation was left half-done.
    expect(logs().filter((name) => name !== "cni.log" && !name.endsWith(".zst"))).toEqual([]);
  }, 30_000);
});

/** Names beside the lock, in order. */
function logs(): string[] {
  return readdirSync(directory.path)
    .filter((name) => !name.endsWith(".lock"))
    .sort();
}

function textOf(name: string): string {
  const bytes = readFileSync(join(directory.path, name));
  return (name.endsWith(".zst") ? Buffer.from(Bun.zstdDecompressSync(bytes)) : bytes).toString();
}
