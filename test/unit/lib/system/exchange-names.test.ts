/** Two names that change places in one step. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SystemError } from "../../../../lib/system/files.ts";
import { exchangeNames } from "../../../../lib/system/write-whole.ts";

let directory = "";
const at = (name: string) => join(directory, name);
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "tortie-exchange-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

it("swaps two directories with what is in them", () => {
  for (const name of ["one", "other"]) {
    mkdirSync(at(name));
    writeFileSync(join(at(name), `of-${name}`), "");
  }

  expect(exchangeNames(at("one"), at("other"))).toBe(true);

  expect([readdirSync(at("one")), readdirSync(at("other"))]).toEqual([["of-other"], ["of-one"]]);
});

it("names the path and the error where one of them is missing", () => {
  mkdirSync(at("one"));

  expect(() => exchangeNames(at("one"), at("other"))).toThrow(
    expect.objectContaining({ constructor: SystemError, code: "ENOENT", message: expect.stringContaining(at("other")) }),
  );
});
