/** The image's root, assembled as for a release: its programs run in it with nothing else of this machine, and install from it. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

let folder: string;
let root: string;
beforeAll(() => {
  mkdirSync(".cache", { recursive: true });
  folder = mkdtempSync(resolve(".cache", "image-"));
  root = join(folder, "root");
  execFileSync("bash", ["scripts/image/rootfs", root]);
});
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** The image is made of what was built, whatever TORTIE_TEST_BIN names. */
const inodeOf = (name: string) => statSync(join("dist/bin", name)).ino;
const HAS_FORWARDER = inodeOf("tortie") !== inodeOf("tortie-ipam");

/** In a mount namespace that ends with the program, with /proc and /dev as every container has them. */
function inImage(command: readonly string[], env: Readonly<Record<string, string>> = {}, wrap = ""): string {
  const script = `mount -t proc proc ${root}/proc && mount --rbind /dev ${root}/dev && exec ${wrap} chroot ${root} "$@"`;
  const PATH = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  return execFileSync("/usr/bin/unshare", ["--mount", "/bin/sh", "-c", script, "sh", ...command], {
    encoding: "utf8",
    env: { PATH, ...env },
  });
}

describe("the image", () => {
  it("runs each of its programs with no file but its own", () => {
    const { version } = JSON.parse(readFileSync("package.json", "utf8"));
    expect(inImage(["tortiectl", "version"]).trim()).toBe(version);
    expect(inImage(["tortie-node", "--help"])).toContain("--manage-cni");
    expect(inImage(["tortie-controller", "--help"])).toContain("--lease-name");
    expect(inImage(["calico", "-v"])).toContain(version);
  });

  it("holds no shell, and one program under seven names, with the forwarder before two of them", () => {
    expect(() => inImage(["sh", "-c", "true"])).toThrow();
    const names = readdirSync(join(root, "usr/local/bin"));
    expect(names).toHaveLength(9);
    const identities = names.map((name) => statSync(join(root, "usr/local/bin", name)).ino);
    expect(new Set(identities).size).toBe(HAS_FORWARDER ? 2 : 1);
  });

  it("installs executables, plugins and conflist as the first container of the DaemonSet does, without any capability", () => {
    writeFileSync(join(root, "etc/tortie/network/tortie.conflist"), '{"name":"n","cniVersion":"1.0.0","plugins":[{"type":"tortie"}]}');
    inImage(
      ["tortiectl", "install", "--plugins", "/opt/tortie/plugins"],
      { CNI_NETWORK_CONFIG_FILE: "/etc/tortie/network/tortie.conflist" },
      "setpriv --bounding-set -all,+sys_chroot --inh-caps -all --",
    );
    const installed = readdirSync(join(root, "opt/cni/bin"));
    expect(installed).toEqual(
      expect.arrayContaining(["tortie", "tortie-ipam", "portmap", "bandwidth", "loopback", "host-local", "tuning"]),
    );
    expect(JSON.parse(readFileSync(join(root, "etc/cni/net.d/10-tortie.conflist"), "utf8"))).toMatchObject({ name: "n" });
    expect(() =>
      execFileSync(join(root, "opt/cni/bin/portmap"), { env: { CNI_COMMAND: "VERSION" }, input: '{"cniVersion":"1.0.0"}' }),
    ).not.toThrow();
  });
});
