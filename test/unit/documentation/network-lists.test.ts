/** JSON that is shown is JSON, and every network configuration among it is one that an ADD would take. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { checkForAdd } from "../../../lib/config/add-checks.ts";
import { chooseDatastore } from "../../../lib/config/datastore-choice.ts";
import { decodeNetworkConfig } from "../../../lib/config/decode.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../../lib/json/value.ts";
import { words } from "../../support/words.ts";
import { blocksOf, PAGES, ROOT } from "./pages.ts";

const FOLDER = "manifests/conflist";

const OURS: readonly JsonValue[] = ["tortie", "calico"];

const BLOCKS = [
  ...PAGES.flatMap((page) => blocksOf(page, "json").map((text, index) => ({ place: `${page.path} ${index + 1}`, text }))),
  ...readdirSync(join(ROOT, FOLDER)).map((name) => ({ place: `${FOLDER}/${name}`, text: readFileSync(join(ROOT, FOLDER, name), "utf8") })),
];

/** What a runtime hands to our plugin: its own element, with name and version of the list. */
function ourPlugin(list: JsonObject): JsonObject | undefined {
  const plugins = Array.isArray(list.plugins) ? list.plugins.filter(isJsonObject) : [];
  const ours = plugins.find(({ type }) => OURS.includes(type ?? null));
  return ours && { ...ours, name: list.name ?? null, cniVersion: list.cniVersion ?? null };
}

describe("JSON in the pages", () => {
  it.each(BLOCKS)("of $place is an object without keys of the wrong type", ({ text }) => {
    const value: unknown = JSON.parse(text);
    expect(value).toBeInstanceOf(Object);
    // A section that is shown alone, or a whole network configuration.
    expect(() => decodeNetworkConfig(value as JsonObject)).not.toThrow();
  });

  it("has the lists that it should, each fit for an ADD", () => {
    const lists = BLOCKS.flatMap(({ place, text }) => {
      const plugin = ourPlugin(JSON.parse(text));
      return plugin === undefined ? [] : [{ place, plugin }];
    });
    expect(lists.map(({ place }) => place.replace(/ \d+$/, "")).sort()).toEqual(words`
      README.md docs/how-to/dual-stack.md docs/how-to/fixed-addresses.md docs/reference/configuration.md
      docs/reference/installer.md docs/reference/tortiectl.md docs/tutorials/first-pod.md
      manifests/conflist/10-tortie-local.conflist manifests/conflist/10-tortie.conflist
    `);
    for (const { plugin } of lists) {
      const config = decodeNetworkConfig(plugin);
      expect(config.name).toMatch(/^\w[\w.-]*$/);
      expect(config.cniVersion).toMatch(/^1\.\d\.0$/);
      expect(() => checkForAdd(config, chooseDatastore(config, {}))).not.toThrow();
    }
  });

  it("has the list for a cluster in docs/reference/installer.md as the cluster suite runs it", () => {
    const list: unknown = JSON.parse(readFileSync(join(ROOT, FOLDER, "10-tortie.conflist"), "utf8"));
    const page = PAGES.find(({ path }) => path === "docs/reference/installer.md");
    expect(page && blocksOf(page, "json").map((text): unknown => JSON.parse(text))).toContainEqual(list);
  });
});
