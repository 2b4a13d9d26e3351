import { readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { execaSync } from "execa";
import {
  closeFile,
  hostName,
  isExecutable,
  makeDirectories,
  O_NONBLOCK,
  O_RDWR,
  openFile,
  readText,
  readToEnd,
  removeFile,
  replaceFile,
  statusOf,
  writeAll,
} from "../../../../lib/system/files.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";
import { umask } from "../../../support/umask.ts";

const directory = fresh(() => new TemporaryDirectory());

const modeOf = (...path: string[]) => statSync(join(directory.path, ...path)).mode & 0o777;

describe("A failed call on a file", () => {
  it.each<[string, string, () => unknown]>([
    ["open", "ENOENT", () => openFile(join(directory.path, "absent"), O_RDWR)],
    ["open", "ENOENT", () => readText(join(directory.path, "absent"))],
    ["read", "EISDIR", () => readText(directory.path)],
    ["rename", "ENOENT", () => replaceFile(join(directory.path, "absent"), join(directory.path, "target"))],
    ["unlink", "EISDIR", () => removeFile(directory.path)],
    ["stat", "EINVAL", () => statusOf("zero\0byte")],
  ])("%s says which call, and %s", (call, code, work) => {
    expect(work).toThrow(expect.objectContaining({ name: "SystemError", code, message: expect.stringMatching(`^${call} `) }));
  });

  it("is none where only the state of affairs is asked for", () => {
    expect(statusOf(join(directory.path, "absent"))).toBeUndefined();
    writeFileSync(join(directory.path, "file"), "");
    expect(statusOf(join(directory.path, "file", "below"))).toBeUndefined();
    expect(isExecutable(join(directory.path, "file"))).toBe(false);
    expect(() => removeFile(join(directory.path, "absent"))).not.toThrow();
  });
});

describe("A new directory", () => {
  it.each([0o000, 0o077])("L6: has the mode it was asked for under umask %o, and so have those above it", (mask) => {
    using _ = umask(mask);
    makeDirectories(join(directory.path, "a", "b"), 0o755);
    makeDirectories(join(directory.path, "a", "b", "c"), 0o700);
    expect([modeOf("a"), modeOf("a", "b"), modeOf("a", "b", "c")]).toEqual([0o755, 0o755, 0o700]);
  });

  it("leaves one that is there as it is, behind a symbolic link too", () => {
    makeDirectories(join(directory.path, "there"), 0o711);
    symlinkSync("there", join(directory.path, "link"));
    makeDirectories(join(directory.path, "link"), 0o755);
    expect(modeOf("there")).toBe(0o711);
  });
});

describe("A pipe that does not block", () => {
  const LIMIT_MS = 50;

  it("L9: that nobody empties ends the write with EAGAIN, after what went in", () => {
    using pipe = fifo();
    const write = () => writeAll(pipe.fd, new Uint8Array(1 << 20).fill(120), "a pipe", LIMIT_MS);
    expect(write).toThrow(expect.objectContaining({ code: "EAGAIN", message: "write a pipe: resource temporarily unavailable" }));
  });

  it("L9: that stays silent ends the read with EAGAIN", () => {
    using pipe = fifo();
    expect(() => readToEnd(pipe.fd, "a pipe", LIMIT_MS)).toThrow(expect.objectContaining({ code: "EAGAIN" }));
  });

  it("gets all of a text that is larger than it, when the reader is slow", async () => {
    const size = 1 << 20;
    const path = join(directory.path, "out");
    const writer = `
      import { openFile, O_NONBLOCK, O_WRONLY, writeAll } from "${process.cwd()}/lib/system/files.ts";
      writeAll(openFile("/proc/self/fd/1", O_WRONLY | O_NONBLOCK), new Uint8Array(${size}).fill(120));`;
    const { stderr } = execaSync("bash", ["-c", '"$0" -e "$1" | (sleep 0.2; cat >"$2")', process.execPath, writer, path]);
    expect(stderr).toBe("");
    expect(readFileSync(path)).toHaveLength(size);
  });

  function fifo(): Disposable & { readonly fd: number } {
    const path = join(directory.path, "fifo");
    execaSync("mkfifo", [path]);
    const fd = openFile(path, O_RDWR | O_NONBLOCK);
    return { fd, [Symbol.dispose]: () => closeFile(fd) };
  }
});

it("The host's name is the one uname(2) has", () => {
  expect(hostName()).toBe(execaSync("uname", ["-n"]).stdout);
});
