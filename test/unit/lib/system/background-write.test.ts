import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startWrite } from "../../../../lib/system/background-write.ts";
import { pollReadable } from "../../../../lib/system/poll.ts";

/** Capacity of a pipe (pipe(7)). */
const PIPE_BYTES = 65536;

describe("a write in the background", () => {
  let dir = "";
  let fd = -1;
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), "tortie-write-"));
    Bun.spawnSync(["/usr/bin/mkfifo", join(dir, "pipe")]);
    fd = openSync(join(dir, "pipe"), "r+");
  });
  afterEach(() => {
    closeSync(fd);
    rmSync(dir, { recursive: true });
  });

  it("does not hold up its caller when the kernel does not take the bytes, and ends when it does", () => {
    writeSync(fd, new Uint8Array(PIPE_BYTES));
    const before = performance.now();
    const write = startWrite(fd, new TextEncoder().encode("late"));
    expect(performance.now() - before).toBeLessThan(1000);
    Bun.sleepSync(50);
    expect(write.isDone()).toBe(false);

    const drained = Buffer.alloc(PIPE_BYTES);
    for (let read = 0; read < PIPE_BYTES; ) read += readSync(fd, drained, 0, PIPE_BYTES - read, null);
    expect(pollReadable([fd], 5000)).toEqual([fd]);
    const rest = Buffer.alloc(16);
    expect(rest.toString("utf8", 0, readSync(fd, rest))).toBe("late");
    while (!write.isDone()) Bun.sleepSync(1);
  });

  it("is waited for no longer than the limit", () => {
    const before = performance.now();
    expect(pollReadable([fd], 100)).toEqual([]);
    const elapsed = performance.now() - before;
    expect(elapsed).toBeGreaterThanOrEqual(99);
    expect(elapsed).toBeLessThan(5000);
  });
});
