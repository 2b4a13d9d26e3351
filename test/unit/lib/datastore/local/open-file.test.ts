/** POSIX drops the locks of a process on a file when it closes any descriptor of it: a store that is open is not looked into again. */
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openConnection } from "../../../../../lib/datastore/local/connection.ts";
import { recogniseFile } from "../../../../../lib/datastore/local/file.ts";

describe("a store that this process has open", () => {
  let directory: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "tortie-open-file-"));
  });
  afterEach(() => rmSync(directory, { recursive: true, force: true }));

  it("is taken for what it was until its last connection is closed", () => {
    const path = join(directory, "tortie.db");
    const first = openConnection(path);
    const second = openConnection(path);
    first[Symbol.dispose]();
    // Whoever reads the file now finds that it is no store.
    const fd = openSync(path, "r+");
    writeSync(fd, Buffer.alloc(16), 0, 16, 0);
    closeSync(fd);

    expect(recogniseFile(path)).toBe("ready");
    second[Symbol.dispose]();
    expect(() => recogniseFile(path)).toThrow("is damaged");
  });
});
