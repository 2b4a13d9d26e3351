/** The image of the manifests, made as `scripts/release` makes it: no daemon, no base image. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { arch } from "node:os";
import { join, resolve } from "node:path";
import { archiveImage } from "../../../scripts/image/archive.ts";
import { VERSION_OF_PACKAGE } from "../../../scripts/image/version.ts";
import { BIN_DIR } from "../node.ts";
import type { KubeletNode } from "./kubelet-node.ts";

export const TORTIE_IMAGE = `docker.io/library/tortie:${VERSION_OF_PACKAGE}`;
const ARCHITECTURES: Readonly<Record<string, string>> = { x64: "amd64", arm64: "arm64" };

/** Gives the node's runtime the image, under its own name and under further tags, as releases that come later would be. */
export function importTortieImage(node: KubeletNode, ...tags: readonly string[]): void {
  const folder = mkdtempSync(resolve(".cache", "image-"));
  try {
    const root = join(folder, "root");
    const layer = join(folder, "layer.tar");
    execFileSync("bash", ["scripts/image/rootfs", root, BIN_DIR]);
    execFileSync("tar", ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu", "-C", root, "-cf", layer, "."]);
    node.ctr("images", "import", archiveImage(layer, folder, ARCHITECTURES[arch()] ?? arch()));
    for (const tag of tags) node.ctr("images", "tag", TORTIE_IMAGE, `docker.io/library/tortie:${tag}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
