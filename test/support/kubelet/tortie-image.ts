/** The image of the manifests, made as `scripts/release` makes it: no daemon, no base image. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { arch } from "node:os";
import { join, resolve } from "node:path";
import { archiveImage, VERSION_OF_PACKAGE } from "../../../scripts/image/archive.ts";
import { BIN_DIR } from "../node.ts";

const TORTIE_IMAGE = `docker.io/library/tortie:${VERSION_OF_PACKAGE}`;
const ARCHITECTURES: Readonly<Record<string, string>> = { x64: "amd64", arm64: "arm64" };

/** @param use gets two archives: what the Containerfile builds, and what `scripts/release` makes of the same layer */
export function withTortieImages(use: (built: string, archive: string) => void): void {
  const architecture = ARCHITECTURES[arch()] ?? arch();
  const folder = mkdtempSync(resolve(".cache", "image-"));
  try {
    const root = join(folder, "root");
    const layer = join(folder, `tortie-rootfs-${architecture}.tar`);
    execFileSync("bash", ["scripts/image/rootfs", root, BIN_DIR]);
    execFileSync("tar", ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu", "-C", root, "-cf", layer, "."]);
    use(buildImage(folder, architecture), archiveImage(layer, folder, architecture));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** By the line that the Containerfile gives, with buildah, which is what `podman build` runs; it needs no daemon and, here, no network. */
function buildImage(folder: string, architecture: string): string {
  const archive = join(folder, "built.tar");
  // Else its own lock comes into the node's /etc/cni/net.d.
  const settings = join(folder, "containers.conf");
  writeFileSync(settings, `[network]\nnetwork_config_dir = "${join(folder, "networks")}"\n`);
  const env = { ...process.env, CONTAINERS_CONF: settings };
  const store = ["--root", join(folder, "store"), "--runroot", join(folder, "run"), "--storage-driver", "vfs"];
  const buildah = (...line: readonly string[]) => execFileSync("buildah", [...store, ...line], { env, stdio: ["ignore", "pipe", "pipe"] });
  buildah("build", "--isolation", "chroot", "--build-arg", `ARCH=${architecture}`, "-t", TORTIE_IMAGE, "-f", "Containerfile", folder);
  buildah("push", TORTIE_IMAGE, `docker-archive:${archive}:${TORTIE_IMAGE}`);
  return archive;
}
