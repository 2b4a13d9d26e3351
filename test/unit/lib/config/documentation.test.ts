import { readFileSync } from "node:fs";
import { join } from "node:path";
import {
  DEFAULT_DATASTORE_PATH,
  DEFAULT_ENDPOINT_STATUS_DIR,
  DEFAULT_IPAM_LOCK_FILE,
  DEFAULT_NODENAME_FILE,
} from "../../../../lib/config/decode.ts";
import { MTU_FILE } from "../../../../lib/config/node-name.ts";
import { ERROR_CATALOGUE } from "../../../../lib/errors/error-catalogue.ts";
import { knownKeys } from "../../../support/known-keys.ts";

const PAGE = readFileSync(join(__dirname, "../../../../docs/reference/configuration.md"), "utf8");

const TYPES = "string|boolean|integer, not negative|integer|object|anything|list of strings|list of objects";
/** Items `- \`key\` (type, default …, read by …):`, with the effect below. */
const ROWS = [...PAGE.matchAll(new RegExp(`^- \`([^\`]+)\` \\((${TYPES})(.*)\\):\\n  \\S`, "gm"))].map(
  ([, key = "", type = "", rest = ""]) => ({
    key: key.replaceAll('"', ""),
    type,
    standard: /^, default (.*?)(?:, read by|$)/.exec(rest)?.[1] ?? "",
  }),
);

describe("docs/reference/configuration.md", () => {
  it("has every key that is decoded, once, and no other", () => {
    expect(ROWS.map(({ key }) => key).sort()).toEqual(
      knownKeys()
        .map(({ path }) => path)
        .sort(),
    );
  });

  it("gives every key the type that is decoded", () => {
    const types = new Map(
      knownKeys().map(({ path, type }) => [
        path,
        type.replace(/^an? /, "").replace("integer that is not negative", "integer, not negative"),
      ]),
    );
    expect(ROWS.filter(({ key, type }) => types.get(key) !== type)).toEqual([]);
  });

  it.each([
    ["datastore_path", DEFAULT_DATASTORE_PATH],
    ["endpoint_status_dir", DEFAULT_ENDPOINT_STATUS_DIR],
    ["ipam_lock_file", DEFAULT_IPAM_LOCK_FILE],
    ["nodename_file", DEFAULT_NODENAME_FILE],
  ])("has the default of %s", (key, standard) => {
    expect(ROWS.find((row) => row.key === key)?.standard).toBe(`\`${standard}\``);
  });

  it("names the MTU file", () => {
    expect(PAGE).toContain(MTU_FILE);
  });

  it("names only words of errors that exist", () => {
    const words = [...PAGE.matchAll(/words? `([a-z-]+)`/g)].map(([, word = ""]) => word);
    expect(words.length).toBeGreaterThan(4);
    expect(words.filter((word) => !(word in ERROR_CATALOGUE))).toEqual([]);
  });

  it("holds an example that is valid JSON", () => {
    const [, example = ""] = /```json\n([\s\S]*?)```/.exec(PAGE) ?? [];
    expect(JSON.parse(example)).toMatchObject({ plugins: [{ type: "tortie" }, { type: "portmap" }, { type: "bandwidth" }] });
  });
});
