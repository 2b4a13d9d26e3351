import { closeSync, openSync, readFileSync, readSync, writeSync } from "node:fs";
import { join } from "node:path";
import { execaSync } from "execa";
import { startWrite } from "../../../../lib/system/background-write.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";
import { openFilesIn } from "../../../support/open-files.ts";

/** Capacity of a pipe (pipe(7)). */
const PIPE_BYTES = 65536;
/** Of the C library, for writes in the background (aio_init(3)). */
const THREADS = 20;

describe("a write in the background", () => {
  const dir = fresh(() => new TemporaryDirectory());
  let fd = -1;
  beforeEach(() => {
    execaSync("mkfifo", [join(dir.path, "pipe")]);
    fd = openSync(join(dir.path, "pipe"), "r+");
  });
  afterEach(() => closeSync(fd));

  it("does not hold up its caller when the kernel does not take the bytes, and ends when it does", () => {
    writeSync(fd, new Uint8Array(PIPE_BYTES));
    // Nobody but this thread empties the pipe: a call that waited would never come back.
    const write = startWrite(fd, new TextEncoder().encode("late"));
    Bun.sleepSync(50);
    expect(write.isDone()).toBe(false);

    drain(fd);
    while (!write.isDone()) Bun.sleepSync(1);
    const rest = Buffer.alloc(16);
    expect(rest.toString("utf8", 0, readSync(fd, rest))).toBe("late");
  });

  it("M3: goes where it was meant to go when its caller has closed the descriptor and something else has the number", () => {
    writeSync(fd, new Uint8Array(PIPE_BYTES));
    const other = join(dir.path, "other");
    // Every thread that the C library has is busy, so that the write that matters has not begun.
    const busy = Array.from({ length: THREADS }, (_, index) => fullPipe(join(dir.path, `busy${index}`)));
    for (const one of busy) startWrite(one, new TextEncoder().encode("x"));
    const given = openSync(join(dir.path, "pipe"), "r+");
    const write = startWrite(given, new TextEncoder().encode("late"));
    closeSync(given);
    const [stranger, others] = openedAt(given, other);

    for (const one of [fd, ...busy]) drain(one);
    while (!write.isDone()) Bun.sleepSync(1);

    expect(readFileSync(other, "utf8")).toBe("");
    const rest = Buffer.alloc(16);
    expect(rest.toString("utf8", 0, readSync(fd, rest))).toBe("late");
    for (const one of [stranger, ...others, ...busy]) closeSync(one);
  });

  it("leaves no descriptor open when it is over, even if nobody asks", async () => {
    const open = () => openFilesIn(dir.path).length;
    for (let times = 0; times < 10; times++) startWrite(fd, new TextEncoder().encode("x"));
    for (const end = Date.now() + 10_000; open() > 1 && Date.now() < end; ) await Bun.sleep(20);
    expect(open()).toBe(1);
  });
});

/** A file at a certain descriptor. The rest of the process may leave smaller ones free: those that are taken until then are the others. */
function openedAt(descriptor: number, path: string): readonly [number, readonly number[]] {
  const others: number[] = [];
  for (;;) {
    const opened = openSync(path, "w+");
    if (opened === descriptor) return [opened, others];
    others.push(opened);
    if (opened > descriptor) throw new Error(`descriptor ${descriptor} was taken by somebody else`);
  }
}

function fullPipe(path: string): number {
  execaSync("mkfifo", [path]);
  const fd = openSync(path, "r+");
  writeSync(fd, new Uint8Array(PIPE_BYTES));
  return fd;
}

function drain(fd: number): void {
  const drained = Buffer.alloc(PIPE_BYTES);
  for (let read = 0; read < PIPE_BYTES; ) read += readSync(fd, drained, 0, PIPE_BYTES - read, null);
}
