/** The installer as Calico's manifests call it (C§11.4): executables, conflist, TLS files, and hosts that are not writable. */
import { execFileSync, spawn } from "node:child_process";
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fresh } from "../../support/fixtures.ts";
import { Installation } from "../../support/installation.ts";
import { until } from "../../support/kubernetes/until.ts";
import { BIN_DIR, HAS_FORWARDER, REFERENCE_PLUGINS_DIR } from "../../support/node.ts";

/** C§9.4: compared byte for byte by Calico's own suite. */
/** Only ends what hangs. */
const LIMIT_MS = 60_000;
const CALICO_FILES = ["calico", "calico-ipam", ...(HAS_FORWARDER ? ["calico-main"] : [])];
const EXPECTED = `{
  "name": "k8s-pod-network",
  "cniVersion": "1.0.0",
  "plugins": [
    {
      "type": "calico",
      "log_level": "info",
      "log_file_path": "/var/log/calico/cni/cni.log",
      "datastore_type": "kubernetes",
      "nodename": "my-node",
      "mtu": 1500,
      "ipam": {"type": "calico-ipam"},
      "policy": {"type": "k8s"},
      "kubernetes": {"kubeconfig": "/etc/cni/net.d/calico-kubeconfig"},
      "require_mtu_file": false,
      "calico_api_group": "crd.projectcalico.org/v1"
    },
    {
      "type": "portmap",
      "snat": true,
      "capabilities": {"portMappings": true}
    }
  ]
}`;

/** In the sandbox's own mount namespace; root may write whatever the permissions say. */
function makeReadOnly(directory: string): Disposable {
  execFileSync("/usr/bin/mount", ["--bind", directory, directory]);
  execFileSync("/usr/bin/mount", ["-o", "remount,bind,ro", directory]);
  return { [Symbol.dispose]: () => void execFileSync("/usr/bin/umount", [directory]) };
}

const host = fresh(() => new Installation());

describe("calico component cni install", () => {
  it("S8: keeps the key of etcd to root, whatever modes the secret and an earlier installation have", async () => {
    const directory = join(host.netDir, "calico-tls");
    const modes = () => [directory, join(directory, "etcd-key")].map((path) => (statSync(path).mode & 0o7777).toString(8));
    for (const name of ["etcd-ca", "etcd-cert", "etcd-key"]) writeFileSync(join(host.secrets, name), name, { mode: 0o644 });
    mkdirSync(directory);
    for (const name of ["etcd-ca", "etcd-cert", "etcd-key"]) writeFileSync(join(directory, name), name, { mode: 0o644 });
    chmodSync(directory, 0o755);

    expect(await host.install()).toMatchObject({ exit: 0 });
    expect(modes()).toEqual(["700", "600"]);
    chmodSync(directory, 0o755);
    expect(await host.install()).toMatchObject({ exit: 0 });
    expect(modes()).toEqual(["700", "600"]);
    expect(readFileSync(join(directory, "etcd-key"), "utf8")).toBe("etcd-key");
  });

  it("I1, I2: puts executables and the default conflist in place", async () => {
    expect(await host.install()).toMatchObject({ exit: 0 });

    for (const directory of [host.binDir, host.secondaryDir]) expect(host.names(directory)).toEqual(CALICO_FILES);
    expect(host.conflist()).toBe(EXPECTED);
    expect(statSync(join(host.netDir, "10-calico.conflist")).mode & 0o777).toBe(0o600);
    expect(execFileSync(join(host.binDir, "calico"), ["-v"], { encoding: "utf8" })).toMatch(/^\d+\.\d+\.\d+\n$/);
  });

  it("I3, I5: fails where no directory for executables can be written", async () => {
    using _one = makeReadOnly(host.binDir);
    using _other = makeReadOnly(host.secondaryDir);

    const run = await host.install();

    expect(run).toMatchObject({ exit: 1, log: expect.stringContaining("install-failed") });
    expect(run.log).toContain(`${host.binDir}: EROFS`);
    expect(host.names(host.netDir).filter((name) => !name.startsWith("."))).toEqual([]);
  });

  it("I4: is content with one of two directories", async () => {
    using _ = makeReadOnly(host.binDir);

    expect(await host.install()).toMatchObject({ exit: 0 });

    expect(host.names(host.binDir)).toEqual([]);
    expect(host.names(host.secondaryDir)).toEqual(CALICO_FILES);
  });

  it.each([
    ["I6: succeeds with both executables there", ["calico", "calico-ipam"], 0],
    ["I7: fails with only one of them", ["calico"], 1],
  ])("read-only directories and UPDATE_CNI_BINARIES=false: %s", async (_, there, exit) => {
    for (const name of there) copyFileSync("/bin/true", join(host.binDir, name));
    using _one = makeReadOnly(host.binDir);
    using _other = makeReadOnly(host.secondaryDir);

    expect(await host.install({ UPDATE_CNI_BINARIES: "false" })).toMatchObject({ exit });
  });

  it("I8: writes the conflist under the name it is given, and removes the one of the former name", async () => {
    writeFileSync(join(host.netDir, "10-calico.conflist"), "{}");

    expect(await host.install({ CNI_CONF_NAME: "20-calico.conflist" })).toMatchObject({ exit: 0 });

    expect(host.conflist("20-calico.conflist")).toBe(EXPECTED);
    expect(existsSync(join(host.netDir, "10-calico.conflist"))).toBe(false);
  });

  it("I9, I11: takes a template from the environment, and rather from a file", async () => {
    expect(await host.install({ CNI_NETWORK_CONFIG: "{}" })).toMatchObject({ exit: 0 });
    expect(host.conflist()).toBe("{}");

    const file = join(host.root, "template");
    writeFileSync(file, '{"alternate": "__KUBERNETES_NODE_NAME__"}');
    expect(await host.install({ CNI_NETWORK_CONFIG: "{}", CNI_NETWORK_CONFIG_FILE: file })).toMatchObject({ exit: 0 });
    expect(host.conflist()).toBe('{"alternate": "my-node"}');
  });

  it.each(["{ not json", "[]", "7", ""])("I10: refuses the template %j, writes no conflist and quotes nothing of it", async (template) => {
    const file = join(host.root, "template");
    writeFileSync(file, template === "" ? '{"secret": "s3cr3t"' : template);

    const run = await host.install({ CNI_NETWORK_CONFIG_FILE: file });

    expect(run).toMatchObject({ exit: 1, log: expect.stringContaining("install-template") });
    expect(run.log).not.toContain("s3cr3t");
    expect(existsSync(join(host.netDir, "10-calico.conflist"))).toBe(false);
  });

  it("I12: replaces a plugin that is executed all the time", async () => {
    copyFileSync(`${REFERENCE_PLUGINS_DIR}/portmap`, join(host.pluginSource, "portmap"));
    expect(await host.install()).toMatchObject({ exit: 0 });
    const portmap = join(host.binDir, "portmap");
    const loop = spawn("/bin/sh", ["-c", `while CNI_COMMAND=VERSION ${portmap} </dev/null >/dev/null; do :; done; echo failed`], {
      stdio: ["ignore", "pipe", "ignore"],
      detached: true,
    });
    let said = "";
    loop.stdout.on("data", (chunk) => {
      said += String(chunk);
    });
    try {
      for (let round = 0; round < 5; round++) {
        copyFileSync(`${REFERENCE_PLUGINS_DIR}/${round % 2 === 0 ? "tuning" : "portmap"}`, join(host.pluginSource, "portmap"));
        const { exit, log } = await host.install();
        expect({ exit, problem: exit === 0 ? "" : log }).toEqual({ exit: 0, problem: "" });
      }
      expect({ said, exit: loop.exitCode }).toEqual({ said: "", exit: null });
    } finally {
      if (loop.pid !== undefined && loop.exitCode === null) process.kill(-loop.pid, "SIGKILL");
    }
  });

  it("I13: copies nothing of a secret that holds a hidden file only", async () => {
    writeFileSync(join(host.secrets, ".hidden"), "secret");

    expect(await host.install()).toMatchObject({ exit: 0 });

    expect(existsSync(join(host.netDir, "calico-tls"))).toBe(false);
  });

  it("I14: copies etcd's certificate and says where it is; takes it away when it is not given any more", async () => {
    writeFileSync(join(host.secrets, "etcd-cert"), "certificate");
    const env = { CNI_NETWORK_CONFIG: '{"cert": "__ETCD_CERT_FILE__", "key": "__ETCD_KEY_FILE__"}' };

    expect(await host.install(env)).toMatchObject({ exit: 0 });
    expect(readFileSync(join(host.netDir, "calico-tls/etcd-cert"), "utf8")).toBe("certificate");
    expect(JSON.parse(host.conflist())).toEqual({ cert: "/etc/cni/net.d/calico-tls/etcd-cert", key: "" });

    expect(await host.install({ ...env, TLS_ASSETS_DIR: join(host.root, "none") })).toMatchObject({ exit: 0 });
    expect(existsSync(join(host.netDir, "calico-tls"))).toBe(false);
  });

  it("takes away a key that is not given any more after the conflist that named it, and changes the others together", async () => {
    const tls = (name: string) => join(host.netDir, "calico-tls", name);
    for (const name of ["etcd-ca", "etcd-cert", "etcd-key"]) writeFileSync(join(host.secrets, name), "first");
    expect(await host.install()).toMatchObject({ exit: 0 });
    const before = statSync(join(host.netDir, "calico-tls"));

    for (const name of ["etcd-ca", "etcd-cert"]) writeFileSync(join(host.secrets, name), "second");
    rmSync(join(host.secrets, "etcd-key"));
    const run = await host.install();

    expect(run).toMatchObject({ exit: 0, log: expect.stringContaining(`${tls("etcd-key")} removed: it is not given any more`) });
    expect(["etcd-ca", "etcd-cert"].map((name) => readFileSync(tls(name), "utf8"))).toEqual(["second", "second"]);
    const after = statSync(join(host.netDir, "calico-tls"));
    expect([after.ino === before.ino, after.mode]).toEqual([false, before.mode]);
    expect(host.names(host.netDir)).not.toContain("calico-tls.tmp");
  });

  it("puts etcd's files one by one into a directory that something is mounted on", async () => {
    mkdirSync(join(host.netDir, "calico-tls"));
    writeFileSync(join(host.netDir, "calico-tls/etcd-ca"), "not given");
    execFileSync("/usr/bin/mount", ["--bind", join(host.netDir, "calico-tls"), join(host.netDir, "calico-tls")]);
    try {
      writeFileSync(join(host.secrets, "etcd-cert"), "certificate");
      expect(await host.install()).toMatchObject({ exit: 0 });
      expect(host.names(join(host.netDir, "calico-tls"))).toEqual([".etcd-ca.before-tortie", "etcd-cert"]);
    } finally {
      execFileSync("/usr/bin/umount", [join(host.netDir, "calico-tls")]);
    }
  });

  it("copies staged plugins, but not those it is told to leave, nor another installer", async () => {
    for (const name of ["portmap", "flannel", "install", "calico"]) {
      writeFileSync(join(host.pluginSource, name), name);
      chmodSync(join(host.pluginSource, name), 0o755);
    }

    expect(await host.install({ SKIP_CNI_BINARIES: "flannel" })).toMatchObject({ exit: 0 });

    expect(host.names(host.binDir)).toEqual([...CALICO_FILES, "portmap"]);
    expect(statSync(join(host.binDir, "calico")).size).toBe(statSync(join(BIN_DIR, "calico")).size);
  });

  it.each([
    [["component", "cni", "remove"], 2],
    [["component"], 2],
  ])("knows no other component: %j", async (argv, exit) => {
    expect(await host.run([join(BIN_DIR, "calico"), ...argv])).toMatchObject({
      exit,
      log: expect.stringContaining("component cni install"),
    });
  });

  it("keeps a plugin that another tool has put into the installed chain, and logs it", async () => {
    await host.install();
    const list = JSON.parse(host.conflist());
    list.plugins.push({ type: "istio-cni" });
    writeFileSync(join(host.netDir, "10-calico.conflist"), JSON.stringify(list));

    const run = await host.install({ CNI_MTU: "9000" });

    expect(run.log).toContain("plugin istio-cni, which somebody else added, stays");
    expect(JSON.parse(host.conflist()).plugins.map(({ type, mtu }: { type: string; mtu?: number }) => [type, mtu])).toEqual([
      ["calico", 9000],
      ["portmap", undefined],
      ["istio-cni", undefined],
    ]);
  });
});

describe("tortiectl install and uninstall", () => {
  const command = (host: Installation, verb: string, ...more: readonly string[]) => {
    const dirs = verb === "install" ? ["--bin-dir", host.binDir, "--source", join(BIN_DIR, "tortie")] : [];
    return host.run([join(BIN_DIR, "tortiectl"), verb, "--net-dir", host.netDir, ...dirs, ...more]);
  };

  it("installs under our own names, says first what it would do, and undoes exactly that", async () => {
    writeFileSync(join(host.binDir, "portmap"), "", { mode: 0o755 });
    writeFileSync(join(host.binDir, "tortie"), "somebody else's", { mode: 0o755 });
    writeFileSync(join(host.netDir, "10-calico.conflist"), '{"calico": "before"}');
    const before = [host.names(host.binDir), host.names(host.netDir)];

    const dry = await command(host, "install", "--dry-run", "--force");
    expect(dry).toMatchObject({ exit: 0, log: expect.stringContaining(`would replace ${join(host.binDir, "tortie")}`) });
    expect([host.names(host.binDir), host.names(host.netDir)]).toEqual(before);

    expect(await command(host, "install", "--force")).toMatchObject({ exit: 0 });
    expect(JSON.parse(host.conflist("10-tortie.conflist")).plugins[0]).toMatchObject({ type: "tortie", ipam: { type: "tortie-ipam" } });
    expect(existsSync(join(host.netDir, "10-calico.conflist"))).toBe(false);
    expect(execFileSync(join(host.binDir, "tortie"), ["-v"], { encoding: "utf8" })).toMatch(/^\d/);
    // A second time: nothing is taken for somebody else's that is our own.
    expect(await command(host, "install", "--force")).toMatchObject({ exit: 0 });

    expect(await command(host, "uninstall", "--dry-run")).toMatchObject({ exit: 0, log: expect.stringContaining("would remove") });
    expect(await command(host, "uninstall")).toMatchObject({ exit: 0 });
    expect([host.names(host.binDir), host.names(host.netDir)]).toEqual(before);
    expect(readFileSync(join(host.binDir, "tortie"), "utf8")).toBe("somebody else's");
    expect(host.conflist()).toBe('{"calico": "before"}');
    expect(await command(host, "uninstall")).toMatchObject({ exit: 0, log: expect.stringContaining("nothing was installed") });
  });

  it("puts tortiectl beside the plugins, as one more name of their file, and is uninstalled by it", async () => {
    expect(await command(host, "install", "--force")).toMatchObject({ exit: 0 });
    expect(host.names(host.binDir)).toEqual(["tortie", "tortie-ipam", ...(HAS_FORWARDER ? ["tortie-main"] : []), "tortiectl"]);
    const programs = host.names(host.binDir).filter((name) => name !== "tortie");
    expect(new Set(programs.map((name) => statSync(join(host.binDir, name)).ino)).size).toBe(1);

    const run = await host.run([join(host.binDir, "tortiectl"), "uninstall", "--wait", "--net-dir", host.netDir]);

    expect(run).toMatchObject({ exit: 0, log: expect.stringContaining(`${join(host.binDir, "tortiectl")} removed`) });
    expect([...host.names(host.binDir), ...host.names(host.netDir)]).toEqual([]);
  });

  it("is content with both plugins in a read-only directory, without tortiectl", async () => {
    for (const name of ["tortie", "tortie-ipam"]) copyFileSync("/bin/true", join(host.binDir, name));
    using _ = makeReadOnly(host.binDir);
    const argv = ["install", "--force", "--net-dir", host.netDir, "--bin-dir", host.binDir];

    expect(await host.run([join(BIN_DIR, "tortiectl"), ...argv], { UPDATE_CNI_BINARIES: "false" })).toMatchObject({ exit: 0 });
  });

  it("prints JSON", async () => {
    const run = await command(host, "install", "--force", "--json");

    expect(JSON.parse(run.log)).toMatchObject({ findings: expect.arrayContaining([expect.objectContaining({ subject: "libc" })]) });
  });
});

describe("tortiectl install --watch", () => {
  it("puts back a conflist that somebody removed, tells its health, and ends when it is asked to", async () => {
    const argv = ["install", "--watch", "--force", "--net-dir", host.netDir, "--bin-dir", host.binDir, "--health-port", "9913"];
    const running = host.start([join(BIN_DIR, "tortiectl"), ...argv]);
    const list = join(host.netDir, "10-tortie.conflist");
    await until("the list", () => existsSync(list), LIMIT_MS);
    await until("its health", async () => (await fetch("http://127.0.0.1:9913/healthz").catch(() => undefined))?.status === 200, LIMIT_MS);

    rmSync(list);
    await until("the list again", () => existsSync(list), LIMIT_MS);

    running.stop();
    expect(await running.ended).toMatchObject({ exit: 0 });
  });
});
