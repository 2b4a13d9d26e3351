import { closeSync, constants, mkdirSync, openSync, readFileSync, statSync, symlinkSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { execaSync } from "execa";
import { TortieError } from "../../../../lib/errors/errors.ts";
import type { LogConfig } from "../../../../lib/log/file.ts";
import { createLogger, type Logger, type LoggerOptions } from "../../../../lib/log/logger.ts";
import { Secrets } from "../../../../lib/log/secrets.ts";
import { systemErrorCode } from "../../../../lib/system/errno.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";
import { umask } from "../../../support/umask.ts";

const OPERATION = { command: "ADD", network: "net1", containerId: "cid1", interfaceName: "eth0" };
const WHO = `command=ADD network=net1 container=cid1 interface=eth0 pid=${process.pid}`;

const directory = fresh(() => new TemporaryDirectory());
let stderr: number;
beforeEach(() => {
  stderr = openSync(join(directory.path, "stderr"), "a");
});
afterEach(() => closeSync(stderr));

describe("the log of an operation", () => {
  it("is one line with time, level, identity, the time of each step and of all", async () => {
    const clock = { milliseconds: 5 };
    const log = logger({}, { clock: () => clock.milliseconds, spentMs: 0 });
    clock.milliseconds = 7.25;
    log.step("plan");
    clock.milliseconds = 10;
    log.step("ipam");
    clock.milliseconds = 11;
    log.step("plan");
    clock.milliseconds = 12.34;
    log.info("ADD done");
    await log.flush();
    expect(written()).toEqual([`2026-11-21T09:24:26.179Z info ADD done ${WHO} steps_ms="plan=3.3 ipam=2.8" total_ms=7.3`]);
  });

  it("counts the time of its own operation, not that of the process, and what the operation had cost before", async () => {
    const clock = { milliseconds: 90_000 };
    const second = logger({}, { clock: () => clock.milliseconds, spentMs: 0 });
    const started = logger({}, { clock: () => clock.milliseconds, spentMs: 20 });
    clock.milliseconds += 4;
    second.info("second call of a process");
    started.info("a process of its own");
    await second.flush();
    await started.flush();
    expect(written().map((line) => line.split(" ").at(-1))).toEqual(["total_ms=4.0", "total_ms=24.0"]);
  });

  it("is written at the end and not before, in one piece", async () => {
    const log = logger();
    log.info("one");
    log.error("two");
    expect(written()).toEqual([]);
    await log.flush();
    expect(written()).toEqual([`2026-11-21T09:24:26.179Z info one ${WHO}`, `2026-11-21T09:24:26.179Z error two ${WHO} total_ms=1.0`]);
  });

  it("tells the times of an operation that had nothing else to say", async () => {
    expect(await logged((log) => log.step("ipam"))).toEqual([
      `2026-11-21T09:24:26.179Z info served ${WHO} steps_ms="ipam=0.0" total_ms=1.0`,
    ]);
  });

  it("writes nothing twice", async () => {
    const log = logger();
    log.info("one");
    await log.flush();
    await log.flush();
    expect(written()).toHaveLength(1);
  });

  it.each<[LogConfig["level"], readonly string[]]>([
    ["debug", ["d", "i", "e"]],
    ["info", ["i", "e"]],
    ["error", ["e"]],
  ])("at level %s has %j", async (level, messages) => {
    const log = logger({ level });
    log.debug("d");
    log.info("i");
    log.error("e");
    await log.flush();
    expect(written().map((line) => line.split(" ")[2])).toEqual(messages);
  });

  it("says nothing of a successful operation at level error", async () => {
    const log = logger({ level: "error" });
    log.step("plan");
    log.info("ADD done");
    await log.flush();
    expect(written()).toEqual([]);
  });

  it("leaves out what an operation has not: STATUS has no container", async () => {
    const log = logger({}, {}, { command: "STATUS", network: "net1", containerId: "", interfaceName: "" });
    log.info("x");
    await log.flush();
    expect(written()[0]).toContain(`command=STATUS network=net1 pid=${process.pid} `);
  });

  it("quotes values that could be misread, and keeps every event on its line", async () => {
    const record = {
      plain: "a/b:c",
      space: "a b",
      quote: 'a"b',
      forged: "x\n2026-01-01T00:00:00.000Z error forged",
      escape: "\u001b[31m",
      separator: "a\u2028b",
      number: 5,
      none: undefined,
      object: { a: [1] },
    };
    const lines = await logged((log) => log.info("text with\nnewline", record));
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain('info "text with\\nnewline" ');
    expect(lines[0]).toContain(
      ' plain=a/b:c space="a b" quote="a\\"b" forged="x\\n2026-01-01T00:00:00.000Z error forged" escape="\\u001b[31m" separator="a\\u2028b" number=5 object="{\\"a\\":[1]}" total_ms',
    );
  });

  it("L8: escapes C1 control characters too, which begin terminal sequences and lines", async () => {
    const record = { sequence: "a\u009b31mb", line: "a\u0085b", delete: "a\u007fb", accent: "é" };
    const [line] = await logged((log) => log.info("message with \u009b31m", record));
    expect(line).toContain('info "message with \\u009b31m" ');
    expect(line).toContain(' sequence="a\\u009b31mb" line="a\\u0085b" delete="a\\u007fb" accent=é ');
  });

  it("M4: has a line that cannot wait at once, after those before it, in both places", async () => {
    const filePath = join(directory.path, "cni.log");
    const log = logger({ filePath });
    log.info("one");
    log.writeNow("info", "waiting for a lock", { holder: 42 });
    const expected = [`2026-11-21T09:24:26.179Z info one ${WHO}`, `2026-11-21T09:24:26.179Z info waiting for a lock ${WHO} holder=42`];
    expect(written()).toEqual(expected);
    expect(linesOf(filePath)).toEqual(expected);
    log.info("ADD done");
    await log.flush();
    expect(written().slice(2)).toEqual([`2026-11-21T09:24:26.179Z info ADD done ${WHO} total_ms=1.0`]);
    expect(linesOf(filePath)).toEqual(written());
  });

  it("L9: is dropped when nobody reads standard error, and the file says so", async () => {
    const filePath = join(directory.path, "cni.log");
    using pipe = fullPipe();
    await logged((log) => log.info("one"), { filePath }, { standardError: pipe.fd });
    expect(linesOf(filePath)).toEqual([
      expect.stringContaining("info one"),
      expect.stringContaining("error standard error takes nothing: write standard error: resource temporarily unavailable "),
    ]);
  });

  it("tells an error with its causes", async () => {
    const error = new TortieError("internal", "outer", { cause: new TortieError("internal", "inner") });
    const [line] = await logged((log) => log.error("ADD failed", { error }));
    expect(line).toContain('error="outer: inner"');
  });

  it("survives values that JSON does not know", async () => {
    const loop: Record<string, unknown> = {};
    loop.self = loop;
    const [line] = await logged((log) => log.info("x", { loop, big: { n: 1n } }));
    expect(line).toContain('loop="[object Object]" big="[object Object]"');
  });

  it("hides secrets: those it is given, bearer tokens, and fields by their name", async () => {
    const record = {
      header: "Authorization: Bearer eyJhbGciOiJSUzI1NiJ9.abc",
      k8sAuthToken: "abc",
      password: "def",
      url: "https://x/?t=s3cr3t-t0ken",
    };
    const secrets = new Secrets("s3cr3t-t0ken", undefined, "");
    const text = (await logged((log) => log.info("request with s3cr3t-t0ken failed", record), {}, { secrets })).join("\n");
    expect(text).not.toMatch(/s3cr3t|eyJ|abc|def/);
    expect(text).toContain("k8sAuthToken=[hidden] password=[hidden]");
  });

  it("does not fail when standard error is closed", async () => {
    const gone = openSync(join(directory.path, "gone"), "a");
    closeSync(gone);
    await expect(logged((log) => log.info("x"), {}, { standardError: gone })).resolves.toEqual([]);
  });
});

describe("log_file_path", () => {
  it("gets the same lines, after what is there", async () => {
    const filePath = join(directory.path, "cni.log");
    writeFileSync(filePath, "before\n");
    const log = logger({ filePath });
    log.info("one");
    log.error("two");
    await log.flush();
    expect(linesOf(filePath)).toEqual(["before", ...written()]);
  });

  it("is made with its directories, 0755 and 0644 (recording log-file)", async () => {
    using _ = umask(0);
    const filePath = join(directory.path, "a", "b", "cni.log");
    expect(await logged((log) => log.info("one"), { filePath })).toEqual(linesOf(filePath));
    expect(statSync(filePath).mode & 0o777).toBe(0o644);
    expect(statSync(join(directory.path, "a", "b")).mode & 0o777).toBe(0o755);
  });

  it("that cannot be written is told to standard error, and fails nothing", async () => {
    writeFileSync(join(directory.path, "file"), "");
    const filePath = join(directory.path, "file", "cni.log");
    expect(await logged((log) => log.info("one"), { filePath })).toEqual([
      expect.stringContaining("info one"),
      `2026-11-21T09:24:26.179Z error cannot write the log file ${filePath}: not a directory ${WHO}`,
    ]);
  });

  it("that refused lines once is not tried again by this operation", async () => {
    const log = logger({ filePath: directory.path });
    log.writeNow("info", "one");
    log.writeNow("info", "two");
    log.info("three");
    await log.flush();
    expect(written().filter((line) => line.includes("cannot write the log file"))).toHaveLength(1);
    expect(written().filter((line) => / info (one|two|three) /.test(line))).toHaveLength(3);
  });

  it.each<[string, (path: string) => void, string]>([
    ["that is a directory is told to standard error", (path) => mkdirSync(path), "is a directory"],
    ["that is a FIFO which nobody reads does not stop the operation", (path) => execaSync("mkfifo", [path]), "no such device or address"],
    ["that is full is told to standard error", (path) => symlinkSync("/dev/full", path), "no space left on device"],
  ])("%s", async (_, make, words) => {
    const filePath = join(directory.path, "odd");
    make(filePath);
    const [, told] = await logged((log) => log.info("one"), { filePath });
    expect(told).toContain(words);
  });

  it("L9: that is a FIFO whose reader has stopped does not stop the operation", async () => {
    using pipe = fullPipe();
    const [, told] = await logged((log) => log.info("one"), { filePath: pipe.path });
    expect(told).toContain("cannot write the log file");
    expect(told).toContain("resource temporarily unavailable");
  });
});

/** A FIFO that has a reader and no room left; `fd` does not block. */
function fullPipe(): Disposable & { readonly fd: number; readonly path: string } {
  const path = join(directory.path, "full-fifo");
  execaSync("mkfifo", [path]);
  const fd = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  for (const size of [4096, 1]) {
    try {
      for (;;) writeSync(fd, Buffer.alloc(size));
    } catch (error) {
      if (systemErrorCode(error) !== "EAGAIN") throw error;
    }
  }
  return { fd, path, [Symbol.dispose]: () => closeSync(fd) };
}

function logger(more: Partial<LogConfig> = {}, moreOptions: LoggerOptions = {}, operation = OPERATION): Logger {
  const config: LogConfig = { level: "info", filePath: undefined, fileMaxSize: 100, fileMaxAge: 30, fileMaxCount: 10, ...more };
  const now = () => new Date("2026-11-21T09:24:26.179Z");
  return createLogger(config, operation, { standardError: stderr, now, clock: () => 1, spentMs: 1, ...moreOptions });
}

/** What standard error has after an operation that logs so. */
async function logged(write: (log: Logger) => void, more: Partial<LogConfig> = {}, moreOptions: LoggerOptions = {}): Promise<string[]> {
  const log = logger(more, moreOptions);
  write(log);
  await log.flush();
  return written();
}

function written(): string[] {
  return linesOf(join(directory.path, "stderr"));
}

function linesOf(path: string): string[] {
  return readFileSync(path, "utf8").split("\n").slice(0, -1);
}
