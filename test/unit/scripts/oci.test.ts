/** The image of all architectures, as another program than ours reads it: every blob is what its name says, and the same layers give the same bytes. */
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { execaSync } from "execa";
import { VERSION_OF_PACKAGE } from "../../../scripts/image/archive.ts";
import { archiveIndex } from "../../../scripts/image/oci.ts";
import { fresh, TemporaryDirectory } from "../../support/fixtures.ts";
import { memberAt } from "../../support/kubernetes/json.ts";

const folder = fresh(() => new TemporaryDirectory());
let layers: Record<string, string>;
beforeEach(() => {
  layers = {};
  for (const architecture of ["amd64", "arm64"]) {
    writeFileSync(join(folder.path, "file"), architecture);
    layers[architecture] = join(folder.path, `${architecture}.tar`);
    execaSync("tar", ["--mtime=@0", "-C", folder.path, "-cf", join(folder.path, `${architecture}.tar`), "file"]);
  }
});

/** The archive, unpacked. @returns a reader of blobs by their digests */
function unpack(archive: string): (digest: unknown) => Buffer {
  const layout = mkdtempSync(join(folder.path, "layout-"));
  execaSync("tar", ["-C", layout, "-xf", archive]);
  const blobs = join(layout, "blobs/sha256");
  for (const name of readdirSync(blobs)) expect(sha256(readFileSync(join(blobs, name)))).toBe(name);
  return (digest) => readFileSync(digest === "index" ? join(layout, "index.json") : join(blobs, String(digest).replace("sha256:", "")));
}

function sha256(bytes: Buffer): string {
  return createHash("sha256").update(bytes).digest("hex");
}

describe("the image of all architectures", () => {
  it("has one index with a manifest for each, whose layer and configuration fit", () => {
    const archive = join(folder.path, "image.tar");
    archiveIndex(archive, layers);
    const blob = unpack(archive);
    const read = (digest: unknown): unknown => JSON.parse(blob(digest).toString());
    const [named, ...others] = Object(memberAt(read("index"), "manifests"));
    expect(others).toEqual([]);
    expect(named.annotations["org.opencontainers.image.ref.name"]).toBe(VERSION_OF_PACKAGE);
    const manifests = Object(memberAt(read(named.digest), "manifests"));
    expect(manifests.map(({ platform }: { platform: unknown }) => platform)).toEqual([
      { architecture: "amd64", os: "linux" },
      { architecture: "arm64", os: "linux" },
    ]);
    for (const { digest, size, platform } of manifests) {
      expect(blob(digest)).toHaveLength(size);
      const manifest = read(digest);
      const layer = gunzipSync(blob(memberAt(manifest, "layers", "0", "digest")));
      expect(layer.equals(readFileSync(layers[platform.architecture] ?? ""))).toBe(true);
      const configuration = read(memberAt(manifest, "config", "digest"));
      expect(memberAt(configuration, "architecture")).toBe(platform.architecture);
      expect(memberAt(configuration, "rootfs", "diff_ids")).toEqual([`sha256:${sha256(layer)}`]);
    }
  });

  it("is the same bytes for the same layers", () => {
    const archives = ["one.tar", "two.tar"].map((name) => join(folder.path, name));
    for (const archive of archives) archiveIndex(archive, layers);
    const [one, two] = archives.map((archive) => sha256(readFileSync(archive)));
    expect(one).toBe(two);
  });
});
