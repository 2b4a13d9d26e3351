/** What the preflight says of hosts that lack something. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { preflight } from "../../../installer/preflight.ts";
import { fresh, TemporaryDirectory } from "../../support/fixtures.ts";

const root = fresh(() => new TemporaryDirectory());
const GLIBC = "lib64/ld-linux-x86-64.so.2";
const KERNEL = ["proc/sys/net/ipv4/conf/all/forwarding", "proc/sys/net/ipv6/conf/all/forwarding"];

function look(...files: readonly string[]): Readonly<Record<string, string>> {
  for (const file of files) {
    const [path = "", text = ""] = file.split("=");
    mkdirSync(dirname(join(root.path, path)), { recursive: true });
    writeFileSync(join(root.path, path), text, { mode: 0o755 });
  }
  const settings = {
    binDirs: [join(root.path, "bin")],
    netDir: join(root.path, "net.d"),
    confName: "10-tortie.conflist",
    oldConfName: "10-calico.conflist",
    pluginSource: "",
  };
  return Object.fromEntries(
    preflight(settings, root.path).map(({ subject, severity }) => [subject.replace(`${root.path}/`, ""), severity]),
  );
}

describe("preflight", () => {
  it("finds nothing on a host that has it all", () => {
    const found = look(GLIBC, ...KERNEL, "bin/portmap", "bin/loopback");

    expect(found).toEqual({ libc: "ok", kernel: "ok", memory: "ok", portmap: "ok", loopback: "ok" });
  });

  it.each([
    ["a host with musl", ["lib/ld-musl-x86_64.so.1", ...KERNEL], { libc: "missing" }],
    ["a kernel without IPv6", [GLIBC, ...KERNEL.slice(0, 1)], { kernel: "warning" }],
    ["no /proc", [GLIBC], { kernel: "missing" }],
    ["SELinux without execmem", [GLIBC, ...KERNEL, "sys/fs/selinux/booleans/deny_execmem=1 1"], { memory: "missing" }],
    ["no portmap", [GLIBC, ...KERNEL], { portmap: "warning" }],
    ["a list that comes earlier", [GLIBC, ...KERNEL, "net.d/05-cilium.conflist"], { "net.d/05-cilium.conflist": "warning" }],
  ])("names what is wrong with %s", (_, files, found) => {
    expect(look(...files)).toMatchObject(found);
  });

  it("tells a host with musl from one without any loader that is known", () => {
    const messageOf = (name: string) => {
      const settings = { binDirs: [], netDir: root.path, confName: "", oldConfName: "", pluginSource: "" };
      return preflight(settings, join(root.path, name)).find(({ subject }) => subject === "libc")?.message;
    };
    look("musl/lib/ld-musl-x86_64.so.1", "none/lib/libc.so");
    expect(messageOf("musl")).toMatch(/^this host has musl: /);
    expect(messageOf("none")).toMatch(/^no loader of glibc was found: /);
  });

  it("does not mind the list that it replaces, nor later ones, nor files that are no lists", () => {
    const found = look(GLIBC, ...KERNEL, "net.d/10-calico.conflist", "net.d/99-loopback.conf", "net.d/00-notes.txt");

    expect(Object.keys(found).filter((subject) => subject.startsWith("net.d"))).toEqual([]);
  });
});
