/**
 * Makes an image without a daemon, in the format of `docker save`, which docker, podman and `ctr images import` read:
 * `bash scripts/bun scripts/image/archive.ts LAYER.tar FOLDER amd64|arm64`. The same layer gives the same bytes.
 */

import { createHash } from "node:crypto";
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { execaSync } from "execa";
import { field, isText, parseObject } from "../../lib/json/decode.ts";

export const VERSION_OF_PACKAGE = field(parseObject(readFileSync("package.json", "utf8")), "version", isText);

export const REPRODUCIBLE = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"];

/** Returns the image's configuration (image-spec, config.md). @param diffId digest of its only layer, uncompressed */
export function imageConfiguration(architecture: string, diffId: string): object {
  return {
    architecture,
    os: "linux",
    created: "1970-01-01T00:00:00Z",
    config: {
      Env: ["PATH=/usr/local/bin"],
      User: "65532:65532",
      Cmd: ["tortiectl", "--help"],
      WorkingDir: "/",
      Labels: { "org.opencontainers.image.version": VERSION_OF_PACKAGE },
    },
    rootfs: { type: "layers", diff_ids: [diffId] },
  };
}

/** @returns path of the archive */
export function archiveImage(layer: string, folder: string, architecture: string): string {
  const parts = join(folder, ".image");
  rmSync(parts, { recursive: true, force: true });
  mkdirSync(parts);
  linkSync(layer, join(parts, "layer.tar"));
  const digest = createHash("sha256").update(readFileSync(layer)).digest("hex");
  writeFileSync(join(parts, "config.json"), JSON.stringify(imageConfiguration(architecture, `sha256:${digest}`)));
  const tag = `docker.io/library/tortie:${VERSION_OF_PACKAGE}`;
  writeFileSync(join(parts, "manifest.json"), JSON.stringify([{ Config: "config.json", RepoTags: [tag], Layers: ["layer.tar"] }]));
  const archive = join(folder, `tortie-image-${architecture}.tar`);
  execaSync("tar", [...REPRODUCIBLE, "-C", parts, "-cf", archive, "config.json", "layer.tar", "manifest.json"]);
  rmSync(parts, { recursive: true });
  return archive;
}

if (import.meta.main) {
  const [layer, folder, architecture] = process.argv.slice(2);
  if (layer === undefined || folder === undefined || architecture === undefined)
    throw new Error("usage: archive.ts LAYER.tar FOLDER ARCHITECTURE");
  process.stdout.write(`${archiveImage(layer, folder, architecture)}\n`);
}
