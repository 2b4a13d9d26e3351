/**
 * Makes one image for several architectures as an OCI image layout in an archive (image-spec 1.1, image-layout.md), which skopeo, podman and
 * `ctr images import` read: `bash scripts/bun scripts/image/oci.ts ARCHIVE amd64=LAYER.tar arm64=LAYER.tar`. The same layers give the same
 * bytes.
 */
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { execaSync } from "execa";
import { imageConfiguration, REPRODUCIBLE, VERSION_OF_PACKAGE } from "./archive.ts";

const TYPES = "application/vnd.oci.image";

interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

/** @param layers path of each architecture's layer, an uncompressed tar archive */
export function archiveIndex(archive: string, layers: Readonly<Record<string, string>>): void {
  const layout = `${archive}.layout`;
  rmSync(layout, { recursive: true, force: true });
  mkdirSync(join(layout, "blobs/sha256"), { recursive: true });
  const store = (mediaType: string, content: Buffer | object): Descriptor => {
    const bytes = Buffer.isBuffer(content) ? content : Buffer.from(JSON.stringify(content));
    const hex = createHash("sha256").update(bytes).digest("hex");
    writeFileSync(join(layout, "blobs/sha256", hex), bytes);
    return { mediaType, digest: `sha256:${hex}`, size: bytes.length };
  };
  const manifests = Object.entries(layers).map(([architecture, layer]) => {
    const diffId = `sha256:${createHash("sha256").update(readFileSync(layer)).digest("hex")}`;
    // Omits the file's name and time, which gzip would write.
    const { stdout } = execaSync("gzip", ["--no-name", "--stdout", layer], { encoding: "buffer", maxBuffer: Number.MAX_SAFE_INTEGER });
    const compressed = Buffer.from(stdout);
    const manifest = {
      schemaVersion: 2,
      mediaType: `${TYPES}.manifest.v1+json`,
      config: store(`${TYPES}.config.v1+json`, imageConfiguration(architecture, diffId)),
      layers: [store(`${TYPES}.layer.v1.tar+gzip`, compressed)],
    };
    return { ...store(manifest.mediaType, manifest), platform: { architecture, os: "linux" } };
  });
  const mediaType = `${TYPES}.index.v1+json`;
  const annotations = {
    "org.opencontainers.image.ref.name": VERSION_OF_PACKAGE,
    "io.containerd.image.name": `docker.io/library/tortie:${VERSION_OF_PACKAGE}`,
  };
  const index = { ...store(mediaType, { schemaVersion: 2, mediaType, manifests }), annotations };
  writeFileSync(join(layout, "index.json"), JSON.stringify({ schemaVersion: 2, mediaType, manifests: [index] }));
  writeFileSync(join(layout, "oci-layout"), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
  execaSync("tar", [...REPRODUCIBLE, "-C", layout, "-cf", archive, "oci-layout", "index.json", "blobs"]);
  rmSync(layout, { recursive: true });
}

if (import.meta.main) {
  const [archive, ...layers] = process.argv.slice(2);
  const pairs = layers.map((layer) => [layer.slice(0, layer.indexOf("=")), layer.slice(layer.indexOf("=") + 1)] as const);
  if (archive === undefined || pairs.length === 0) throw new Error("usage: oci.ts ARCHIVE ARCHITECTURE=LAYER.tar …");
  archiveIndex(archive, Object.fromEntries(pairs));
}
