/** The history of attachments: its two files, what others may have done to them, and the intervals that its entries make. */
import { execFileSync } from "node:child_process";
import { appendFileSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { assignmentsOf, type HistoryEntry, HistoryWriter, readHistory, wasAssigned } from "../../../handover/history.ts";
import { fresh, TemporaryDirectory } from "../../support/fixtures.ts";

const directory = fresh(() => new TemporaryDirectory());

function entry(changes: Partial<HistoryEntry> = {}): HistoryEntry {
  const about = { network: "net1", containerId: "aa11", ifname: "eth0", pod: "default/web", addresses: ["10.0.0.1"] };
  return { time: "2026-01-01T00:00:00.000Z", event: "add", outcome: "ok", ...about, steps: [], ...changes };
}

const at = (second: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, second)).toISOString();

const writer = fresh(() => new HistoryWriter(directory.path));

describe("the history's files", () => {
  it("have what was noted as soon as it was", () => {
    expect([writer.note(), readHistory(directory.path)]).toEqual([true, []]);
    expect(writer.note(entry(), entry({ containerId: "bb22" }))).toBe(true);

    expect(readHistory(directory.path).map(({ containerId }) => containerId)).toEqual(["bb22", "aa11"]);
  });

  it("are two at most, of which the older one is dropped, and belong to root alone", () => {
    const small = new HistoryWriter(directory.path, 2_000);

    for (let number = 0; number < 100; number++) small.note(entry({ containerId: `cid${number}` }));

    expect(readdirSync(directory.path).sort()).toEqual(["history.1.jsonl", "history.jsonl"]);
    for (const name of readdirSync(directory.path)) {
      const { size, mode } = statSync(join(directory.path, name));
      expect([size <= 2_000, mode & 0o777]).toEqual([true, 0o600]);
    }
    const kept = readHistory(directory.path);
    expect(kept[0]?.containerId).toBe("cid99");
    expect(kept.length).toBeLessThan(30);
  });

  it("go on after a line that a killed process has cut", () => {
    writer.note(entry());
    appendFileSync(join(directory.path, "history.jsonl"), '{"time":"2026-01-0');

    writer.note(entry({ containerId: "bb22" }));

    expect(readHistory(directory.path).map(({ containerId }) => containerId)).toEqual(["bb22", "aa11"]);
  });

  it("lose what cannot be read, and nothing else", () => {
    const path = join(directory.path, "history.jsonl");
    const lines = [
      JSON.stringify(entry()),
      "[1,2]",
      JSON.stringify({ ...entry(), steps: "none" }),
      JSON.stringify({ ...entry(), time: "yesterday" }),
      JSON.stringify({ ...entry(), addresses: [1] }),
      `{"__proto__":{"time":1}}`,
      "\u0000\ufffd",
      JSON.stringify({ ...entry(), message: "x".repeat(100_000) }),
    ];
    writeFileSync(path, `${lines.join("\n")}\n`);

    expect(readHistory(directory.path)).toEqual([entry()]);
  });

  it("are read to their last two mebibytes, however long somebody made them", () => {
    const path = join(directory.path, "history.jsonl");
    writeFileSync(path, `${JSON.stringify(entry({ containerId: "first" }))}\n${"x".repeat(6 << 20)}\n${JSON.stringify(entry())}\n`);

    expect(readHistory(directory.path).map(({ containerId }) => containerId)).toEqual(["aa11"]);
  });

  it("are no links, pipes or directories", () => {
    const path = join(directory.path, "history.jsonl");
    writeFileSync(join(directory.path, "secret"), `${JSON.stringify(entry())}\n`);
    for (const make of [
      () => symlinkSync(join(directory.path, "secret"), path),
      () => execFileSync("mkfifo", [path]),
      () => mkdirSync(path),
    ]) {
      make();
      expect(readHistory(directory.path)).toEqual([]);
      rmSync(path, { recursive: true });
    }
  });

  it("do not stop their writer where they cannot be written", () => {
    writeFileSync(join(directory.path, "in-the-way"), "");

    expect(new HistoryWriter(join(directory.path, "in-the-way", "history")).note(entry())).toBe(false);
  });

  it("hold what an error quotes on one line, cut", () => {
    writer.note(entry({ outcome: "failed", message: `\u001b[2J${"m".repeat(50_000)}` }));

    expect(readFileSync(join(directory.path, "history.jsonl"), "utf8").length).toBeLessThan(3_000);
    expect(readHistory(directory.path)[0]?.message).toMatch(/^\\u001b\[2Jm+…$/);
  });
});

describe("reading the history", () => {
  beforeEach(() => {
    writer.note(entry({ containerId: "aa11", pod: "default/web", addresses: ["10.0.0.1"] }));
    writer.note(entry({ containerId: "aa22", pod: "default/db", addresses: ["10.0.0.11", "fd00::1"] }));
  });

  it.each([
    [{ address: "10.0.0.1" }, ["aa11"]],
    [{ address: "fd00::1" }, ["aa22"]],
    [{ pod: "default/web" }, ["aa11"]],
    [{ container: "aa" }, ["aa22", "aa11"]],
    [{ container: "aa", limit: 1 }, ["aa22"]],
    [{ pod: "default/web", address: "fd00::1" }, []],
  ])("finds by %j", (query, found) => {
    expect(readHistory(directory.path, query).map(({ containerId }) => containerId)).toEqual(found);
  });
});

describe("assignments", () => {
  it("say who had an address from when to when, the newest first", () => {
    const entries = [
      entry({ time: at(1) }),
      entry({ time: at(5), event: "del", since: at(1) }),
      entry({ time: at(6), event: "add", outcome: "failed", containerId: "bb22", pod: "default/failed" }),
      entry({ time: at(9), event: "assigned", containerId: "cc33", pod: "default/next" }),
    ].reverse();

    const made = assignmentsOf(entries);

    expect(made.map(({ pod, from, until }) => [pod, from, until])).toEqual([
      ["default/next", at(9), undefined],
      ["default/web", at(1), at(5)],
    ]);
    const during = (second: number) => made.filter((one) => wasAssigned(one, Date.parse(at(second)))).map(({ pod }) => pod);
    expect([during(0), during(3), during(7), during(20)]).toEqual([[], ["default/web"], [], ["default/next"]]);
  });

  it("know by the end of one when it began, where the beginning is dropped", () => {
    const [only] = assignmentsOf([entry({ time: at(5), event: "del", since: at(1) })]);

    expect(only).toMatchObject({ address: "10.0.0.1", from: at(1), until: at(5) });
  });

  it("begin once, however often an ADD is repeated", () => {
    const repeated = [entry({ time: at(1) }), entry({ time: at(2) }), entry({ time: at(3) })].reverse();

    expect(assignmentsOf(repeated).map(({ from }) => from)).toEqual([at(1)]);
  });
});
