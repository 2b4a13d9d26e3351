/**
 * Lists the contents of a release as CycloneDX 1.5: bundled npm packages, Bun and the libraries that Bun says it contains, and for the
 * image the Debian packages, installed ones or those in a folder: `bash scripts/bun scripts/image/sbom.ts [FOLDER]`. The same tree and
 * packages give the same bytes.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { execaSync } from "execa";
import { type Fields, isObject, parseObject, section, text } from "../../lib/json/decode.ts";
import { VERSION_OF_PACKAGE } from "./archive.ts";

interface Component {
  readonly type: "application" | "library";
  readonly name: string;
  readonly version: string;
  readonly purl?: string;
  readonly description?: string;
  readonly hashes?: readonly { readonly alg: string; readonly content: string }[];
  readonly components?: readonly Component[];
}

/** Maps Bun's own words to the names by which vulnerabilities are known. */
const KNOWN_AS: Readonly<Record<string, string>> = { webkit: "webkit (JavaScriptCore)", ares: "c-ares", uv: "libuv", lolhtml: "lol-html" };
/** Lists entries of process.versions for interfaces of other runtimes, or for tools outside the executable. */
const INTERFACES = new Set(["bun", "node", "v8", "modules", "napi", "openssl", "typescript", "unicode"]);
/** Lists Debian packages with files in the image. */
const DEBIAN = ["libc6", "containernetworking-plugins"];
/** Names the forwarder's C library if it is there (scripts/build-forwarder); else, and for another architecture, it is libc6. */
const MUSL = "musl-dev";

/** @param packages folder of the image's `.deb` files; absent: the installed packages */
export function sbom(packages?: string): Fields {
  const debian = packages === undefined && isInstalled(MUSL) ? [...DEBIAN, MUSL] : DEBIAN;
  const all = [...npmComponents(), bunComponent(), ...debian.map((name) => debianComponent(name, versionOf(name, packages)))];
  // Joins copies: npm may place one version several times.
  const components = new Map(all.map((component) => [`${component.name}@${component.version}`, component]));
  return {
    bomFormat: "CycloneDX",
    specVersion: "1.5",
    version: 1,
    metadata: { component: { type: "application", name: "tortie", version: VERSION_OF_PACKAGE } },
    components: [...components].map(([reference, component]) => ({ "bom-ref": reference, ...component })),
  };
}

/** Returns `dependencies` and what they need in turn: a superset of what the bundler keeps. */
function npmComponents(): readonly Component[] {
  const packages = section(parseObject(readFileSync("package-lock.json", "utf8")), "packages");
  const found = new Map<string, Component>();
  const visit = (name: string, from: string): void => {
    const place = placeOf(packages, name, from);
    if (place === undefined || found.has(place)) return;
    const entry = section(packages, place);
    found.set(place, npmComponent(name, entry));
    for (const dependency of namesOf(entry)) visit(dependency, place);
  };
  for (const name of [...Object.keys(section(section(packages, ""), "dependencies"))]) visit(name, "");
  return [...found.values()].toSorted((a, b) => (`${a.name}@${a.version}` < `${b.name}@${b.version}` ? -1 : 1));
}

/** Looks where Node does: beside the importer, then further up. */
function placeOf(packages: Fields, name: string, from: string): string | undefined {
  for (let folder = from; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf("/node_modules/")))) {
    const place = folder === "" ? `node_modules/${name}` : `${folder}/node_modules/${name}`;
    if (isObject(packages[place])) return place;
    if (folder === "") return undefined;
  }
}

function namesOf(entry: Fields): readonly string[] {
  return ["dependencies", "optionalDependencies"].flatMap((key) => Object.keys(section(entry, key)));
}

function npmComponent(name: string, entry: Fields): Component {
  const version = text(entry, "version");
  const [algorithm, digest = ""] = text(entry, "integrity").split("-");
  const hashes = algorithm === "sha512" ? [{ alg: "SHA-512", content: Buffer.from(digest, "base64").toString("hex") }] : [];
  return { type: "library", name, version, purl: `pkg:npm/${name.replace("@", "%40")}@${version}`, hashes };
}

function bunComponent(): Component {
  const inside = Object.entries(process.versions)
    .filter(([name]) => !INTERFACES.has(name))
    .map(([name, version]): Component => ({ type: "library", name: KNOWN_AS[name] ?? name, version: String(version) }))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const version = String(process.versions.bun);
  return { type: "application", name: "bun", version, purl: `pkg:npm/bun@${version}`, description: "the runtime", components: inside };
}

function versionOf(name: string, packages: string | undefined): string {
  if (packages === undefined) return execaSync("dpkg-query", ["-W", "-f", "$" + "{Version}", name]).stdout;
  const file = readdirSync(packages).find((one) => one.startsWith(`${name}_`));
  if (file === undefined) throw new Error(`${packages} has no package ${name}`);
  return execaSync("dpkg-deb", ["--field", join(packages, file), "Version"]).stdout.trim();
}

function isInstalled(name: string): boolean {
  return execaSync("dpkg-query", ["-W", name], { reject: false }).exitCode === 0;
}

function debianComponent(name: string, version: string): Component {
  return { type: "library", name, version, purl: `pkg:deb/debian/${name}@${encodeURIComponent(version)}`, description: "in the image" };
}

if (import.meta.main) process.stdout.write(`${JSON.stringify(sbom(process.argv[2]), undefined, 2)}\n`);
