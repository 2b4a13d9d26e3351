/** The list of what a release contains: every bundled package, and what is inside the runtime. */
import { readFileSync } from "node:fs";
import { sbom } from "../../../scripts/image/sbom.ts";

interface Component {
  readonly name: string;
  readonly version: string;
  readonly hashes?: readonly { readonly content: string }[];
  readonly components?: readonly Component[];
}

const components = sbom().components as readonly Component[];
const find = (name: string) => components.find((component) => component.name === name);

describe("the SBOM", () => {
  it("names every package of dependencies with the checksum of package-lock.json, and what they need in turn", () => {
    const { dependencies } = JSON.parse(readFileSync("package.json", "utf8"));
    const { packages } = JSON.parse(readFileSync("package-lock.json", "utf8"));
    for (const [name, version] of Object.entries(dependencies)) {
      const { integrity } = packages[`node_modules/${name}`];
      const content = Buffer.from(integrity.slice("sha512-".length), "base64").toString("hex");
      const found = components.find((component) => component.name === name && component.version === version);
      expect(found?.hashes).toEqual([{ alg: "SHA-512", content }]);
    }
    // Of fastify, two steps away.
    expect(find("fast-uri")).toBeDefined();
    expect(find("jest")).toBeUndefined();
    expect(find("typescript")).toBeUndefined();
  });

  it("names Bun and the libraries inside of it, with their versions", () => {
    const bun = find("bun");
    expect(bun?.version).toBe(process.versions.bun);
    const inside = new Map((bun?.components ?? []).map(({ name, version }) => [name, version]));
    for (const name of ["webkit (JavaScriptCore)", "boringssl", "sqlite", "zlib", "zstd", "tinycc", "c-ares", "icu", "mimalloc"]) {
      expect(inside.get(name)).toMatch(/^[0-9a-f.]+$/);
    }
  });

  it("has a reference for each component, once", () => {
    const references = (sbom().components as readonly { readonly "bom-ref": string }[]).map((component) => component["bom-ref"]);
    expect(new Set(references).size).toBe(references.length);
  });
});
