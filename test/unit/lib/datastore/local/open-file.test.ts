/** POSIX drops the locks of a process on a file when it closes any descriptor of it: a store that is open is not looked into again. */
import { closeSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { openConnection } from "../../../../../lib/datastore/local/connection.ts";
import { recogniseFile } from "../../../../../lib/datastore/local/file.ts";
import { fresh, TemporaryDirectory } from "../../../../support/fixtures.ts";

describe("a store that this process has open", () => {
  const directory = fresh(() => new TemporaryDirectory());

  it("is taken for what it was until its last connection is closed", () => {
    const path = join(directory.path, "tortie.db");
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
