import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readConflist, whyRefused } from "../../../../../lib/cni/runtime/conflist.ts";
import { fresh, TemporaryDirectory } from "../../../../support/fixtures.ts";

const PLUGINS = [{ type: "one" }, { type: "two" }];
const dir = fresh(() => new TemporaryDirectory());

function write(content: unknown, name = "net.conflist"): string {
  const file = join(dir.path, name);
  writeFileSync(file, typeof content === "string" ? content : JSON.stringify(content));
  return file;
}

describe("a network configuration list", () => {
  it("is read with its plugins in order, what they declare, and its switches", () => {
    const list = readConflist(
      write({
        cniVersion: "1.0.0",
        name: "podnet",
        disableCheck: true,
        disableGC: "true",
        plugins: [
          { type: "one", extra: [1] },
          { type: "two", capabilities: { portMappings: true, mac: false } },
        ],
      }),
    );

    expect(list).toMatchObject({ name: "podnet", cniVersion: "1.0.0", disableCheck: true, disableGc: true });
    expect(list.plugins.map((plugin) => [plugin.type, [...plugin.capabilities]])).toEqual([
      ["one", []],
      ["two", ["portMappings"]],
    ]);
    expect(list.plugins[0]?.netconf).toEqual({ type: "one", extra: [1] });
  });

  it.each(["TRUE", "True", "true"])("R12: takes the word %s, in any case, for true", (word) => {
    const keys = { disableCheck: word, disableGC: word, loadOnlyInlinedPlugins: word };
    expect(readConflist(write({ name: "podnet", plugins: PLUGINS, ...keys }))).toMatchObject({ disableCheck: true, disableGc: true });
    expect(readConflist(write({ name: "podnet", plugins: PLUGINS, disableGC: "FALSE" }))).toMatchObject({ disableGc: false });
    for (const wrong of ["yes", "", null, 1])
      expect(() => readConflist(write({ name: "n", plugins: PLUGINS, disableGC: wrong }))).toThrow("disableGC");
  });

  it("may be a single plugin's configuration", () => {
    const list = readConflist(write({ cniVersion: "0.4.0", name: "podnet", type: "one", mtu: 9000 }, "net.conf"));

    expect(list).toMatchObject({ name: "podnet", cniVersion: "0.4.0", disableCheck: false, disableGc: false });
    expect(list.plugins.map((plugin) => plugin.netconf.mtu)).toEqual([9000]);
  });

  it.each([
    [{}, "0.1.0"],
    [{ cniVersion: "" }, "0.1.0"],
    [{ cniVersion: "0.3.1" }, "0.3.1"],
    [{ cniVersion: "0.3.1", cniVersions: ["0.4.0", "0.2.0"] }, "0.4.0"],
    [{ cniVersions: ["1.0.0", "1.1.0", "2.0.0"] }, "1.1.0"],
  ])("given %j speaks version %s", (versions, chosen) => {
    expect(readConflist(write({ name: "podnet", plugins: PLUGINS, ...versions })).cniVersion).toBe(chosen);
  });

  it("takes further plugins from the folder beside it that has the network's name, unless told not to", () => {
    mkdirSync(join(dir.path, "podnet"));
    write({ type: "b" }, "podnet/20-b.conf");
    write({ type: "a" }, "podnet/10-a.conf");
    write({ type: "no" }, "podnet/30-no.conflist");
    const types = (content: object) => readConflist(write({ name: "podnet", ...content })).plugins.map((plugin) => plugin.type);

    expect(types({ plugins: PLUGINS })).toEqual(["one", "two", "a", "b"]);
    expect(types({})).toEqual(["a", "b"]);
    expect(types({ plugins: PLUGINS, loadOnlyInlinedPlugins: true })).toEqual(["one", "two"]);
  });

  it.each([
    ["{", "not JSON: "],
    [[], "a JSON object is wanted"],
    [{ plugins: PLUGINS }, "name: the network's name is missing"],
    [{ name: "a/b", plugins: PLUGINS }, 'name: "a/b" must start with'],
    [{ name: "n", cniVersion: "9.0.0", plugins: PLUGINS }, 'no version of "9.0.0" is known'],
    [{ name: "n", cniVersion: 1, plugins: PLUGINS }, "cniVersion: only text is allowed"],
    [{ name: "n", plugins: {} }, "plugins: a list is wanted"],
    [{ name: "n", plugins: [] }, "plugins: the list is empty"],
    [{ name: "n" }, "plugins: the list is empty"],
    [{ name: "n", loadOnlyInlinedPlugins: true }, "plugins: missing, although loadOnlyInlinedPlugins is true"],
    [{ name: "n", plugins: ["one"] }, "plugins[0]: an object is wanted"],
    [{ name: "n", plugins: [{ type: "one" }, {}] }, "plugins[1].type: the plugin's name is missing"],
    [{ name: "n", plugins: [{ type: "../evil" }] }, 'plugins[0].type: "../evil" must be a file name'],
    [{ name: "n", plugins: [{ type: "one", capabilities: { mac: 1 } }] }, "plugins[0].capabilities.mac: true or false is wanted"],
    [{ name: "n", disableCheck: 1, plugins: PLUGINS }, "disableCheck: true or false is wanted"],
  ])("%j is refused, naming file and key", (content, problem) => {
    const file = write(content);

    expect(() => readConflist(file)).toThrow(
      expect.objectContaining({ word: "conflist-invalid", message: expect.stringContaining(`${file}: ${problem}`) }),
    );
  });

  it.each([
    ["net.conf", { name: "n", plugins: PLUGINS }, /holds a list of plugins, which runtimes read from a \.conflist alone/],
    ["net.json", { name: "n", plugins: PLUGINS }, /holds a list of plugins/],
    ["net.conflist", { name: "n", type: "one" }, /holds one plugin, which runtimes read from a \.conf or \.json alone/],
    ["net.conf", { name: "n" }, /type: the plugin's name is missing/],
  ])("in %s is refused where runtimes refuse it: %j", (name, content, problem) => {
    const file = write(content, name);
    expect(() => readConflist(file)).toThrow(problem);
    const byForm = whyRefused(file)?.message ?? "";
    expect(byForm === "" || problem.test(byForm)).toBe(true);
  });

  it.each([
    ["net.conf", { name: "n", type: "one", plugins: PLUGINS }, ["one"]],
    ["net.json", { name: "n", type: "one" }, ["one"]],
    ["net.conflist", { name: "n", type: "one", plugins: PLUGINS }, ["one", "two"]],
    ["net", { name: "n", type: "one" }, ["one"]],
    ["other", { name: "n", plugins: PLUGINS }, ["one", "two"]],
  ])("in %s is what runtimes read from it: %j", (name, content, types) => {
    const file = write(content, name);
    expect(whyRefused(file)).toBeUndefined();
    expect(readConflist(file).plugins.map(({ type }) => type)).toEqual(types);
  });

  it("that cannot be read is an error with its path", () => {
    expect(() => readConflist("/nowhere/net.conflist")).toThrow(
      expect.objectContaining({ word: "conflist-unreadable", message: expect.stringContaining("/nowhere/net.conflist") }),
    );
  });
});
