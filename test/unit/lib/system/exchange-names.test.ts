/** Two names that change places in one step. */
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SystemError } from "../../../../lib/system/files.ts";
import { exchangeNames } from "../../../../lib/system/write-whole.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";

const directory = fresh(() => new TemporaryDirectory());
const at = (name: string) => join(directory.path, name);

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
