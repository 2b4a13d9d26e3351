/** Images of one layer, with Debian's static busybox, as `docker save` writes them; the runtime's sandboxes are of one too. */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { arch } from "node:os";
import { join } from "node:path";

export const TEST_IMAGE = "test.local/busybox:1";
export const PAUSE_IMAGE = "registry.k8s.io/pause:3.10";

const ARCHITECTURES: Readonly<Record<string, string>> = { x64: "amd64", arm64: "arm64" };
const APPLETS = ["sh", "sleep", "nc", "ping", "ip", "cat", "httpd", "echo"];
/** Process 1 of a container ignores signals that it does not handle. */
const SERVE = `#!/bin/sh\ntrap "exit 0" TERM INT\nhttpd -p 8080 -h /www\nwhile :; do sleep 86400 & wait $!; done\n`;

/** @returns the archive */
export function makeImage(directory: string): string {
  const root = rootOf(directory);
  mkdirSync(join(root, "www"));
  writeFileSync(join(root, "www/index.html"), "ok\n");
  writeFileSync(join(root, "bin/serve"), SERVE);
  chmodSync(join(root, "bin/serve"), 0o755);
  return archiveOf(directory, { [PAUSE_IMAGE]: ["/bin/sleep", "2147483647"], [TEST_IMAGE]: ["/bin/serve"] });
}

/**
 * The image of Kubernetes' own tests: their program and a shell.
 * @returns the archive
 */
export function makeAgnhostImage(directory: string, agnhost: string, name: string): string {
  cpSync(agnhost, join(rootOf(directory), "agnhost"));
  return archiveOf(directory, { [name]: ["/agnhost"] });
}

function rootOf(directory: string): string {
  const root = join(directory, "root");
  for (const name of ["bin", "etc", "tmp", "proc", "sys", "dev"]) mkdirSync(join(root, name), { recursive: true });
  cpSync("/bin/busybox", join(root, "bin/busybox"));
  for (const applet of APPLETS) symlinkSync("busybox", join(root, "bin", applet));
  writeFileSync(join(root, "etc/passwd"), "root:x:0:0:root:/:/bin/sh\n");
  return root;
}

/** @param entrypoints name of an image → what it runs */
function archiveOf(directory: string, entrypoints: Readonly<Record<string, readonly string[]>>): string {
  execFileSync("tar", ["-C", join(directory, "root"), "-cf", join(directory, "layer.tar"), "."]);
  const digest = createHash("sha256")
    .update(readFileSync(join(directory, "layer.tar")))
    .digest("hex");
  const images = Object.entries(entrypoints).map(([name, entrypoint], index) => {
    const configuration = {
      architecture: ARCHITECTURES[arch()],
      os: "linux",
      created: "1970-01-01T00:00:00Z",
      config: { Env: ["PATH=/bin"], Entrypoint: entrypoint, WorkingDir: "/" },
      rootfs: { type: "layers", diff_ids: [`sha256:${digest}`] },
    };
    writeFileSync(join(directory, `${index}.json`), JSON.stringify(configuration));
    return { Config: `${index}.json`, RepoTags: [name], Layers: ["layer.tar"] };
  });
  writeFileSync(join(directory, "manifest.json"), JSON.stringify(images));
  const archive = join(directory, "image.tar");
  execFileSync("tar", ["-C", directory, "-cf", archive, "manifest.json", ...images.map(({ Config }) => Config), "layer.tar"]);
  return archive;
}
