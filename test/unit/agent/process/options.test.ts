import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { AGENT as CONFIGURABLE, OPTION_NAMES, resolveOptions } from "../../../../agent/start/options.ts";
import { optionsSchema, variableOf } from "../../../../lib/resident/options.ts";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";

const AGENT = join(import.meta.dirname, "../../../../agent");

const directory = fresh(() => new TemporaryDirectory());

/** @returns its path */
function file(content: string): string {
  const path = join(directory.path, "agent.json");
  writeFileSync(path, content);
  return path;
}

describe("The options of tortie-node", () => {
  it("have limits: an id of an endpoint has 16 bits", () => {
    expect(resolveOptions({ "max-endpoints": "65535" }, {}, undefined)["max-endpoints"]).toBe(65_535);
    expect(() => resolveOptions({ "max-endpoints": "65536" }, {}, undefined)).toThrow(expect.objectContaining({ word: "option-invalid" }));
  });

  it("have defaults for everything that needs one", () => {
    expect(resolveOptions({}, {}, undefined)).toMatchObject({
      "run-dir": "/run/tortie",
      "log-level": "info",
      "health-port": 9879,
      ipam: "blocks",
    });
  });

  it("come from flag, variable, file and default, in this order", () => {
    const path = file('{"health-port": 1, "max-endpoints": 5, "ipam-cooldown": 6, "node-wait-fatal": true}');
    const env = { TORTIE_HEALTH_PORT: "2", TORTIE_MAX_ENDPOINTS: "7", TORTIE_SOCK: "/elsewhere" };
    const options = resolveOptions({ "health-port": "3" }, env, path);
    expect(options).toMatchObject({ "health-port": 3, "max-endpoints": 7, "ipam-cooldown": 6, "node-wait-fatal": true, "object-qps": 5 });
  });

  it.each([
    [{ "health-port": "many" }, {}, /--health-port: "many" must be integer/],
    [{ "health-port": "70000" }, {}, /--health-port: .*must be <= 65535/],
    [{}, { TORTIE_IPAM: "calico" }, /variable TORTIE_IPAM: "calico" .*blocks,host-scope/],
    [{ "run-dir": "run" }, {}, /--run-dir: "run" must match/],
    [{}, { TORTIE_ENABLE_IPV4: "false", TORTIE_ENABLE_IPV6: "false" }, /Either IPv4 or IPv6 addressing must be enabled/],
  ])("refuse %j with %j, naming value and place", (flags, env, message) => {
    expect(() => resolveOptions(flags, env, undefined)).toThrow(message);
  });

  it.each([
    "http://user:hush@collector:4318",
    "https://hush@collector/base",
    "http://collector:4318?key=hush",
    "http://collector\\@hush",
    "http://a:hush@b/c@d?key=hush",
  ])("S13: refuse credentials in --otlp-endpoint, and do not repeat them: %s", (url) => {
    const resolve = () => resolveOptions({ "otlp-endpoint": url }, {}, undefined);
    expect(resolve).toThrow(expect.objectContaining({ word: "option-invalid", message: expect.stringContaining("--otlp-endpoint") }));
    if (!url.includes("\\")) expect(resolve).toThrow(expect.objectContaining({ message: expect.not.stringContaining("hush") }));
  });

  it.each(["http://collector:4318", "https://[fd00::1]:4318/base/path@1"])("S13: take %s as --otlp-endpoint", (url) => {
    expect(resolveOptions({ "otlp-endpoint": url }, {}, undefined)["otlp-endpoint"]).toBe(url);
  });

  it.each([
    ['{"health-port": "9"}', /agent\.json: health-port: "9" must be integer/],
    ['{"helth-port": 9}', /agent\.json: helth-port: there is no such option/],
    ["[]", /an object of options is expected/],
    ["{", /--config .*agent\.json/],
  ])("refuse the file %s", (content, message) => {
    expect(() => resolveOptions({}, {}, file(content))).toThrow(message);
  });

  it("A-A18: have no --datapath-mode, which would have to be refused", () => {
    const path = file('{"datapath-mode": "ipvlan"}');
    expect(() => resolveOptions({}, {}, path)).toThrow(/agent\.json: datapath-mode: there is no such option/);
  });

  it("are each read somewhere", () => {
    const files = new Bun.Glob("**/*.ts").scanSync(AGENT);
    const source = [...files].filter((file) => file !== "process/option-table.ts").map((file) => readFileSync(join(AGENT, file), "utf8"));
    const isRead = (name: string) => source.some((text) => text.includes(`"${name}"`) || text.includes(`options.${name}`));
    expect(OPTION_NAMES.filter((name) => !isRead(name))).toEqual([]);
  });

  it("each have a variable of their own, and a place in the schema", () => {
    expect(new Set(OPTION_NAMES.map(variableOf)).size).toBe(OPTION_NAMES.length);
    expect(Object.keys(optionsSchema(CONFIGURABLE).properties ?? {})).toEqual(OPTION_NAMES);
  });
});
