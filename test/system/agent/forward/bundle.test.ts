/** The way of a call through the socket loads little code: it is what every forwarded call pays (A§3.10, issue's bar of 30,000 bytes). */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fresh, TemporaryDirectory } from "../../../support/fixtures.ts";

const MOST_BYTES = 30_000;
/** Named by the exporter of traces alone. */
const OTLP_VARIABLE = "OTEL_EXPORTER_OTLP_CERTIFICATE";

const bundles = fresh(() => new TemporaryDirectory());

/** Bundles a role, the plugin's unless another is named, as scripts/build does. */
function bundle(role = "tortie", directory = bundles.path): void {
  const args = [`cmd/${role}.ts`, "--target=bun", "--format=esm", "--splitting", "--minify"];
  const build = Bun.spawnSync(
    ["node_modules/bun/bin/bun.exe", "build", ...args, "--outdir", directory, "--chunk-naming", "[name]-[hash].[ext]"],
    { env: { PATH: process.env.PATH ?? "" } },
  );
  if (build.exitCode !== 0) throw new Error(build.stderr.toString());
}

function textOf(file: string): string {
  return readFileSync(join(bundles.path, file), "utf8");
}

/** A file and everything that it imports at once, itself included; what is imported on demand is left out. */
function closure(file: string, found = new Set<string>()): Set<string> {
  if (found.has(file)) return found;
  found.add(file);
  for (const [, path = ""] of textOf(file).matchAll(/(?:from|import)\s*"\.\/([^"]+)"/g)) closure(path, found);
  return found;
}

it("a forwarded call loads less than 30,000 bytes of our code, and neither the decoder nor the flows", () => {
  bundle();
  const loaded = closure("tortie.js");
  const bytes = [...loaded].reduce((sum, name) => sum + statSync(join(bundles.path, name)).size, 0);
  console.log(`the way through the socket: ${bytes} bytes in ${loaded.size} files`);
  expect(bytes).toBeLessThan(MOST_BYTES);
  const text = [...loaded].map(textOf).join("\n");
  expect(text).toContain("cni.sock");
  // One word of each that has no business here: the decoder of the configuration, the datastores, the kernel, the log.
  for (const word of ["failed to load netconf", "sqlite", "RTM_", "169.254.1.1", "total_ms"]) expect(text).not.toContain(word);
});

it("OpenTelemetry is in no file of the plugin, and in those of the agent that only an endpoint for traces makes it import", () => {
  const withOpenTelemetry = () => readdirSync(bundles.path).filter((name) => textOf(name).includes(OTLP_VARIABLE));
  bundle();
  expect(withOpenTelemetry()).toEqual([]);
  bundle("tortie-node");
  expect(withOpenTelemetry()).toEqual([expect.stringMatching(/^otlp-tracing-/)]);
  const atOnce = [...closure("tortie-node.js")];
  expect(atOnce.filter((name) => withOpenTelemetry().includes(name))).toEqual([]);
});

it("the YAML library is in one file, which only the validation and the printing of YAML import", () => {
  bundle("tortiectl/main");
  const files = readdirSync(bundles.path);
  const withYaml = files.filter((name) => textOf(name).includes("Map keys must be unique"));
  expect(withYaml).toHaveLength(1);
  // These are imported where a YAML file is validated, or YAML is asked for.
  const loadedLate = (file: string) => withYaml.includes(file) || /^(yaml-documents|index)-/.test(file);
  for (const name of files.filter((file) => !loadedLate(file))) {
    expect([...closure(name)].filter((file) => withYaml.includes(file))).toEqual([]);
  }
  for (const role of ["tortie", "tortie-ipam", "tortie-node", "tortie-controller"]) {
    bundle(role, join(bundles.path, role));
    expect(readdirSync(join(bundles.path, role)).filter((name) => name.startsWith("yaml-documents-"))).toEqual([]);
  }
});
