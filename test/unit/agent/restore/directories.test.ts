import { existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EndpointDirectories } from "../../../../agent/endpoints/record/directories.ts";
import { mendDirectories } from "../../../../agent/restore/directories.ts";

const HOUR_MS = 3_600_000;

describe("directories of endpoints at a restore", () => {
  it("C9: keep the files of a failed build for a day, and no longer", () => {
    const directories = new EndpointDirectories(mkdtempSync(join(tmpdir(), "tortie-directories-")));
    directories.create(7, "_next_fail");
    const made = Date.now();

    mendDirectories(directories, made + 23 * HOUR_MS);
    expect(existsSync(directories.path(7, "_next_fail"))).toBe(true);

    mendDirectories(directories, made + 25 * HOUR_MS);
    expect(existsSync(directories.path(7, "_next_fail"))).toBe(false);
  });
});
