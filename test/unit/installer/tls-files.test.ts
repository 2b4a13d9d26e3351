/** Etcd's certificate and key on the host: which are copied, with which permissions, and when they go again. */
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { installTlsFiles, removeOtherTlsFiles, tlsDirectory } from "../../../installer/template.ts";
import { fresh } from "../../support/fixtures.ts";
import { InstallDirectories } from "../../support/install-directories.ts";

const ALL = ["etcd-ca", "etcd-cert", "etcd-key"];

const host = fresh(() => new InstallDirectories());

const install = () => installTlsFiles(host.settings(), host.log);
const directory = () => tlsDirectory(host.netDir);
const modes = (...names: readonly string[]) => names.map((name) => (statSync(join(directory(), name)).mode & 0o7777).toString(8));

describe("TLS files of etcd", () => {
  it("S8: are copied, the three of them and nothing else, the key for root alone", () => {
    host.addSecrets(...ALL, "notes");
    expect(install()).toEqual(new Set(ALL));
    expect(readdirSync(directory()).sort()).toEqual(ALL);
    expect(modes(".", ...ALL)).toEqual(["700", "644", "644", "600"]);
    expect(readFileSync(join(directory(), "etcd-key"), "utf8")).toBe("etcd-key\n");
    expect(host.said).toEqual(ALL.map((name) => `${join(directory(), name)} installed`));
  });

  it("may be a single one: the authority of an etcd that asks for no certificate", () => {
    host.addSecrets("etcd-ca");
    expect(install()).toEqual(new Set(["etcd-ca"]));
    expect(readdirSync(directory())).toEqual(["etcd-ca"]);
    expect(host.said.filter((line) => line.startsWith("warning: "))).toHaveLength(2);
  });

  it("S8: a directory that others may read is closed to them, though its files are what they should be", () => {
    host.addSecrets(...ALL);
    install();
    chmodSync(directory(), 0o755);
    install();
    expect(modes(".", "etcd-key")).toEqual(["700", "600"]);
  });

  it("are left alone while nothing changes, and replaced when one does", () => {
    host.addSecrets(...ALL);
    install();
    const inode = () => statSync(directory()).ino;
    const first = inode();
    install();
    expect(inode()).toBe(first);
    writeFileSync(join(host.secrets, "etcd-cert"), "renewed");
    writeFileSync(join(host.secrets, "etcd-key"), "renewed too");
    install();
    expect(ALL.map((name) => readFileSync(join(directory(), name), "utf8"))).toEqual(["etcd-ca\n", "renewed", "renewed too"]);
    expect(host.said.slice(ALL.length)).toEqual(["etcd-cert", "etcd-key"].map((name) => `${join(directory(), name)} installed`));
    // What they were before is gone too.
    expect(readdirSync(host.netDir)).toEqual(["calico-tls"]);
  });

  it("keep one that is not given any more until the conflist names it no longer, and one that is missing is named", () => {
    host.addSecrets(...ALL);
    install();
    using later = new InstallDirectories();
    later.addSecrets("etcd-ca", "etcd-cert");
    writeFileSync(join(later.secrets, "etcd-cert"), "renewed");
    const given = installTlsFiles({ tlsDir: later.secrets, netDir: host.netDir }, host.log);
    expect(readdirSync(directory()).sort()).toEqual(ALL);
    expect(host.said).toContain(`warning: ${join(later.secrets, "etcd-key")} is not there`);

    writeFileSync(join(directory(), ".etcd-key.before-tortie"), "another program's");
    removeOtherTlsFiles(host.netDir, given, host.log);
    expect(readdirSync(directory()).sort()).toEqual([".etcd-key.before-tortie", "etcd-ca", "etcd-cert"]);
    expect(host.said).toContain(`${join(directory(), "etcd-key")} removed: it is not given any more`);
  });

  it("are no directory on a host without any, and take an empty one away", () => {
    expect(install()).toEqual(new Set());
    removeOtherTlsFiles(host.netDir, new Set(), host.log);
    expect(readdirSync(host.netDir)).toEqual([]);

    mkdirSync(join(host.netDir, "calico-tls"));
    removeOtherTlsFiles(host.netDir, new Set(), host.log);
    expect(readdirSync(host.netDir)).toEqual([]);
  });
});
