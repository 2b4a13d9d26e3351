import { appendFileSync, existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { type StatusCode, StatusLog, type StatusType } from "../../../../agent/endpoints/status.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";

const dir = fresh(() => new TemporaryDirectory());
let path: string;
beforeEach(() => {
  path = join(dir.path, "log.jsonl");
});
const log = fresh(() => new StatusLog(path));

let time = 0;
const entry = (code: StatusCode, type: StatusType, message: string) => ({
  code,
  type,
  message,
  state: "ready" as const,
  time: new Date(++time).toISOString(),
});

describe("the status log of an endpoint", () => {
  it("says by the heaviest type that is not OK how the endpoint is", () => {
    expect(log.status()).toBe("OK");
    log.add(entry("Warning", "Other", "w"));
    log.add(entry("Failure", "Policy", "f"));
    expect(log.status()).toBe("Failure");
    log.add(entry("OK", "Policy", "p"));
    expect(log.status()).toBe("Warning");
    log.add(entry("OK", "Other", "o"));
    expect(log.status()).toBe("OK");
  });

  it("keeps 256 entries, and beyond that what is current and not OK", () => {
    log.add(entry("Failure", "BPF", "the failure"));
    for (let at = 0; at < 1000; at++) log.add(entry("OK", "Other", `entry ${at}`));
    const messages = log.entries().map(({ message }) => message);
    expect(messages).toHaveLength(256);
    expect([messages[0], messages.at(-1)]).toEqual(["entry 999", "the failure"]);
    log.add(entry("OK", "BPF", "mended"));
    log.add(entry("OK", "Other", "one more"));
    expect(log.entries().map(({ message }) => message)).not.toContain("the failure");
  });

  it("survives a restart, and a last line that was cut", () => {
    log.add(entry("Failure", "BPF", "the failure"));
    log.add(entry("OK", "Other", "later"));
    log.flush();
    appendFileSync(path, '{"code":"OK","mess');
    const after = StatusLog.load(path);
    expect(after.entries()).toEqual(log.entries());
    after.add(entry("OK", "BPF", "mended"));
    after.flush();
    expect(StatusLog.load(path).entries()).toEqual(after.entries());
    expect(after.status()).toBe("OK");
  });

  it("is written once for what one turn of the event loop adds, and at once where that is asked for", async () => {
    const messages = () =>
      readFileSync(path, "utf8")
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line).message);
    log.add(entry("OK", "Other", "first"));
    await Promise.resolve();
    log.add(entry("OK", "Other", "second"));
    expect(existsSync(path)).toBe(false);
    await new Promise((done) => setImmediate(done));
    expect(messages()).toEqual(["first", "second"]);

    log.add(entry("OK", "Other", "third"));
    log.flush();
    await new Promise((done) => setImmediate(done));
    expect(messages()).toEqual(["first", "second", "third"]);
  });

  it("keeps its file below 64 KiB", () => {
    for (let at = 0; at < 2000; at++) {
      log.add(entry("OK", "Other", `${at} ${"x".repeat(100)}`));
      log.flush();
      if (at % 100 === 0) expect(statSync(path).size).toBeLessThanOrEqual(64 * 1024);
    }
    expect(readFileSync(path, "utf8").split("\n").at(-2)).toContain("1999 ");
  });
});
