/** A real registry on the node's loopback, and a release in it: what nodes pull, and Helm installs from. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { arch } from "node:os";
import { join, resolve } from "node:path";
import { packageChart } from "../../../scripts/chart.ts";
import { VERSION_OF_PACKAGE } from "../../../scripts/image/archive.ts";
import { archiveIndex } from "../../../scripts/image/oci.ts";
import { endProcess, startProcess } from "../kubernetes/process.ts";
import { until } from "../kubernetes/until.ts";
import { BIN_DIR } from "../node.ts";
import { REGISTRY } from "./configurations.ts";
import { DIR } from "./pretend-host.ts";
import { withTortieImages } from "./tortie-image.ts";

export class Registry implements AsyncDisposable {
  readonly #pid: number;

  private constructor(pid: number) {
    this.#pid = pid;
  }

  /** By default on the pretended host, when that is made. @param folder holds its files */
  static async start(address = REGISTRY, folder = DIR): Promise<Registry> {
    const configuration = join(folder, "registry.yml");
    const storage = { filesystem: { rootdirectory: join(folder, "registry") } };
    writeFileSync(
      configuration,
      JSON.stringify({ version: 0.1, log: { level: "warn" }, storage, http: { addr: address, secret: "test" } }),
    );
    const program = join(programsOf("registry"), "registry");
    const registry = new Registry(startProcess([program, "serve", configuration], join(folder, "registry.log")));
    await until("the registry", () =>
      fetch(`http://${address}/v2/`).then(
        ({ status }) => status === 200,
        () => false,
      ),
    );
    return registry;
  }

  /**
   * The image under the name that the manifests have, as the Containerfile builds it; and the release's archive, which docker and podman
   * load, under the name of a release that comes later.
   *
   * @returns the later one's name
   */
  pushImages(): string {
    const later = `${REGISTRY}/tortie:next`;
    withTortieImages((built, archive) => {
      copy(built, `${REGISTRY}/library/tortie:${VERSION_OF_PACKAGE}`);
      copy(archive, later);
    });
    return later;
  }

  /** As `scripts/release --push` does it, with this build for this machine's architecture and next to nothing for another one. */
  pushRelease(): void {
    const folder = mkdtempSync(resolve(".cache", "release-"));
    try {
      const own = arch() === "x64" ? "amd64" : "arm64";
      const layer = (name: string, root: string) => {
        const path = join(folder, `${name}.tar`);
        execFileSync("tar", ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu", "-C", root, "-cf", path, "."]);
        return path;
      };
      const root = join(folder, "root");
      execFileSync("bash", ["scripts/image/rootfs", root, BIN_DIR]);
      const empty = join(folder, "empty");
      mkdirSync(empty);
      const layers = { [own === "amd64" ? "arm64" : "amd64"]: layer("other", empty), [own]: layer("own", root) };
      archiveIndex(join(folder, "tortie-image.oci.tar"), layers);
      packageChart(join(folder, `tortie-${VERSION_OF_PACKAGE}.tgz`), `${REGISTRY}/tortie`);
      const env = { ...process.env, HOME: folder, PATH: `${programsOf("helm")}:/usr/sbin:/usr/bin:/sbin:/bin` };
      execFileSync("bash", ["scripts/push", REGISTRY, folder], { env, stdio: ["ignore", "pipe", "pipe"] });
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await endProcess(this.#pid);
  }
}

/** @param archive as `docker save` writes it */
function copy(archive: string, image: string): void {
  // The least compression: it takes longer than all the rest.
  const options = ["--quiet", "--dest-tls-verify=false", "--dest-compress-level", "1"];
  execFileSync("skopeo", ["--insecure-policy", "copy", ...options, `docker-archive:${archive}`, `docker://${image}`], {
    stdio: ["ignore", "pipe", "pipe"],
  });
}

function programsOf(what: string): string {
  return execFileSync("bash", [resolve("scripts/cluster-servers"), what], { encoding: "utf8" }).trim();
}
