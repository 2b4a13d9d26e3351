/**
 * `scripts/release --push REGISTRY` as one command, with a real registry, from which skopeo and Helm take back what was made. It needs the
 * registries of npm and Debian and a clean tree, so it is no part of the suites in the sandbox; their kubelet installs from such a registry.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parse } from "yaml";
import { signatureOf } from "../../scripts/client/signature.ts";
import { VERSION_OF_PACKAGE } from "../../scripts/image/archive.ts";
import { Registry } from "../support/kubelet/registry.ts";
import { memberAt } from "../support/kubernetes/json.ts";
import { freePorts } from "../support/kubernetes/servers.ts";

/** Two minutes on an idle machine, half an hour beside forty other processes. */
const LIMIT_MS = 3_600_000;
const RELEASE = resolve("dist/release");
const DOWNLOADS = "https://downloads.example/v1";
/** Archives of kubectl's plugin: what is in them, and how it is signed. */
const PLATFORMS = [
  { platform: "linux-amd64", kind: /^ELF 64-bit LSB .*x86-64/, signature: undefined },
  { platform: "linux-arm64", kind: /^ELF 64-bit LSB .*aarch64/, signature: undefined },
  { platform: "darwin-amd64", kind: /^Mach-O 64-bit x86_64/, signature: { isArm: false, signature: "none" } },
  { platform: "darwin-arm64", kind: /^Mach-O 64-bit arm64/, signature: { isArm: true, signature: "ad hoc" } },
];
const CHART = `tortie-${VERSION_OF_PACKAGE}.tgz`;

let folder: string;
let address: string;
let helm: string;
let registry: Registry;
let said: string;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "tortie-release-"));
  address = `127.0.0.1:${(await freePorts()).api}`;
  registry = await Registry.start(address, folder);
  helm = execFileSync("bash", ["scripts/cluster-servers", "helm"], { encoding: "utf8" }).trim();
  const env = { ...process.env, HOME: folder, PATH: `${helm}:${process.env.PATH}` };
  const { status, stdout, stderr } = spawnSync("bash", ["scripts/release", "--push", address, "--downloads", DOWNLOADS], {
    encoding: "utf8",
    env,
  });
  said = stdout + stderr;
  if (status !== 0) throw new Error(`scripts/release ended with ${status}: ${said}`);
}, LIMIT_MS);
afterAll(async () => {
  await registry?.[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

function archived(name: string): unknown {
  return JSON.parse(execFileSync("tar", ["-xOf", join(RELEASE, "tortie-image.oci.tar"), name], { encoding: "utf8" }));
}

it("builds everything for both architectures, twice to the same bytes", () => {
  const twice = [...said.matchAll(/^same bytes twice: (.*)$/gm)].map(([, name]) => name).sort();
  const wanted = ["amd64", "arm64"].flatMap((one) => [`tortie-linux-${one}`, `tortie-main-linux-${one}`, `tortie-rootfs-${one}.tar`]);
  expect(twice).toEqual([...wanted, ...PLATFORMS.map(({ platform }) => `kubectl-tortie-${platform}`)].sort());
  expect(readdirSync(RELEASE)).toEqual(
    expect.arrayContaining([
      ...["amd64", "arm64"].flatMap((one) => [`tortie-${one}.cdx.json`, `tortie-image-${one}.tar`, `tortie-linux-${one}.tar.gz`]),
      ...[CHART, "SHA256SUMS", "tortie-image.oci.tar", "tortie.yaml"],
    ]),
  );
  execFileSync("sha256sum", ["--check", "--strict", "--quiet", "SHA256SUMS"], { cwd: RELEASE });
});

describe("kubectl's plugin", () => {
  it.each(PLATFORMS)("for $platform is one executable of that platform, beside the license", ({ platform, kind, signature }) => {
    const into = mkdtempSync(join(folder, "client-"));
    execFileSync("tar", ["-xzf", join(RELEASE, `kubectl-tortie-${platform}.tar.gz`), "-C", into]);
    expect(readdirSync(into).sort()).toEqual(["LICENSE", "kubectl-tortie"]);
    const program = join(into, "kubectl-tortie");
    expect(execFileSync("file", ["--brief", program], { encoding: "utf8" })).toMatch(kind);
    if (signature !== undefined) expect(signatureOf(readFileSync(program))).toEqual(signature);
  });

  it("runs on Linux without a node, and says of a node's commands that they need one", () => {
    execFileSync("tar", ["-xzf", join(RELEASE, "kubectl-tortie-linux-amd64.tar.gz"), "-C", folder, "./kubectl-tortie"]);
    const run = (...args: readonly string[]) =>
      spawnSync(join(folder, "kubectl-tortie"), args, { encoding: "utf8", env: { HOME: folder, PATH: "/nowhere" } });
    expect(run("version")).toMatchObject({ status: 0, stdout: `${VERSION_OF_PACKAGE}\n`, stderr: "" });
    expect(run("node", "status")).toMatchObject({ status: 1, stdout: "", stderr: expect.stringContaining("(node-needed)") });
    expect(run("endpoints").stderr).toContain("(kubeconfig-unreadable)");
  });

  it("is what krew's manifest says of each archive", () => {
    const manifest: unknown = parse(readFileSync(join(RELEASE, "krew-tortie.yaml"), "utf8"));
    const sums = readFileSync(join(RELEASE, "SHA256SUMS"), "utf8");
    expect(memberAt(manifest, "spec", "platforms")).toEqual(
      PLATFORMS.map(({ platform }) => platform)
        .sort()
        .map((name) => {
          const [os, arch] = name.split("-");
          const file = `kubectl-tortie-${name}.tar.gz`;
          const [sha256] =
            sums
              .split("\n")
              .find((line) => line.endsWith(`  ${file}`))
              ?.split(" ") ?? [];
          return { selector: { matchLabels: { os, arch } }, uri: `${DOWNLOADS}/${file}`, sha256, bin: "kubectl-tortie" };
        }),
    );
    expect(manifest).toMatchObject({ kind: "Plugin", metadata: { name: "tortie" }, spec: { version: `v${VERSION_OF_PACKAGE}` } });
  });
});

it("pushes the image of both, with the digest of the release", () => {
  const image = `docker://${address}/tortie:${VERSION_OF_PACKAGE}`;
  const raw = execFileSync("skopeo", ["inspect", "--tls-verify=false", "--raw", image], { encoding: "utf8" });
  const manifests = memberAt(JSON.parse(raw), "manifests");
  if (!Array.isArray(manifests)) throw new Error(raw);
  expect(manifests.map((one) => memberAt(one, "platform", "architecture"))).toEqual(["amd64", "arm64"]);
  const digest = memberAt(archived("index.json"), "manifests", "0", "digest");
  expect(`sha256:${new Bun.CryptoHasher("sha256").update(raw).digest("hex")}`).toBe(digest);
});

it("pushes the chart, and its image is the one that was pushed, as that of the manifest is", () => {
  const plain = ["--plain-http", "--version", VERSION_OF_PACKAGE];
  const chart = `oci://${address}/charts/tortie`;
  const run = (...args: readonly string[]) =>
    execFileSync(join(helm, "helm"), args, { encoding: "utf8", cwd: folder, env: { HOME: folder, PATH: "/usr/bin:/bin" } });
  run("pull", chart, ...plain);
  expect(readFileSync(join(folder, CHART)).equals(readFileSync(join(RELEASE, CHART)))).toBe(true);
  expect(run("show", "values", chart, ...plain)).toContain(`repository: ${address}/tortie\n`);
  const images = [...readFileSync(join(RELEASE, "tortie.yaml"), "utf8").matchAll(/^ *image: "?([^"\n]+)"?$/gm)].map(([, image]) => image);
  expect(new Set(images)).toEqual(new Set([`${address}/tortie:${VERSION_OF_PACKAGE}`]));
});
