import { mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { writeWhole } from "../../../installer/files.ts";
import { install } from "../../../installer/install.ts";
import { noteInstalled, readRecord, remember, writeRecord } from "../../../installer/record.ts";
import { linksOfPods, uninstall, uninstallConflist, untilNoPodIsLeft } from "../../../installer/uninstall.ts";
import { fresh } from "../../support/fixtures.ts";
import { InstallDirectories } from "../../support/install-directories.ts";

const host = fresh(() => new InstallDirectories());

const file = (name: string) => {
  writeFileSync(join(host.netDir, name), "{}");
  return join(host.netDir, name);
};
const visible = () => host.visible(host.netDir);

describe("uninstallConflist", () => {
  it("takes the list away where another one stands beside it, and nothing else", () => {
    const files = [file("05-tortie.conflist"), file("calico-kubeconfig")];
    writeRecord(host.netDir, { files, formers: [], installed: {} });
    file("10-calico.conflist");
    uninstallConflist(host.netDir, () => {});
    expect(visible()).toEqual(["10-calico.conflist", "calico-kubeconfig"]);
  });

  it("leaves the only list to the pods that have still to be deleted", () => {
    writeRecord(host.netDir, { files: [file("10-tortie.conflist"), file("calico-kubeconfig")], formers: [], installed: {} });
    uninstallConflist(host.netDir, () => {});
    expect(visible()).toEqual(["10-tortie.conflist", "calico-kubeconfig"]);
  });
});

describe("What was put on the host after the installation", () => {
  const CALICO_LIST = JSON.stringify({ name: "k8s-pod-network", cniVersion: "0.3.1", plugins: [{ type: "calico" }] });
  const kubeconfig = (end: number, comment = "# by calico-node") => {
    const token = `x.${Buffer.from(JSON.stringify({ exp: end })).toString("base64url")}.x`;
    return `${comment}\nusers:\n- user:\n    token: ${token}\n`;
  };
  const inHours = (hours: number) => Math.round(Date.now() / 1000) + hours * 3600;
  const names = (folder: string) => readdirSync(folder).filter((name) => name !== ".tortie-install");

  it("stays: Calico's list and its executables of the same names", async () => {
    await install(host.settings(), () => {});
    writeFileSync(join(host.netDir, "10-calico.conflist"), CALICO_LIST);
    writeFileSync(join(host.binDir, "theirs"), "Calico's");
    renameSync(join(host.binDir, "theirs"), join(host.binDir, "tortie-ipam"));

    uninstallConflist(host.netDir, () => {});
    expect(names(host.netDir)).toEqual(["10-calico.conflist"]);
    expect(names(host.binDir)).toContain("tortie");
    const said: string[] = [];
    uninstall(host.netDir, false, (line) => said.push(line));

    expect(readFileSync(join(host.netDir, "10-calico.conflist"), "utf8")).toBe(CALICO_LIST);
    expect([names(host.netDir), names(host.binDir)]).toEqual([["10-calico.conflist"], ["tortie-ipam"]]);
    expect(said).toContain(`${join(host.binDir, "tortie-ipam")} stays: it was put there after the installation`);
  });

  it("stays although there was another file before the installation, which is given up", async () => {
    writeFileSync(join(host.netDir, "10-calico.conflist"), "{}");
    await install(host.settings(), () => {});
    expect(names(host.netDir).filter((name) => !name.startsWith("."))).toEqual(["10-tortie.conflist"]);
    writeFileSync(join(host.netDir, "10-calico.conflist"), CALICO_LIST);

    uninstall(host.netDir, false, () => {});

    expect(readFileSync(join(host.netDir, "10-calico.conflist"), "utf8")).toBe(CALICO_LIST);
    expect(names(host.netDir)).toEqual(["10-calico.conflist"]);
  });

  it.each([
    ["a kubeconfig of another program stays", "calico-kubeconfig", "# by calico-node, renewed", 24, "# by calico-node, renewed"],
    ["ours stays where the token of the one before it has ended", "calico-kubeconfig", "ours", -1, "# Kubeconfig of the CNI plugins."],
    ["ours goes where the one before it still serves", "calico-kubeconfig", "ours", 1, "# by calico-node"],
    ["so it is with TORTIE_KUBECONFIG_NAME", "tortie-kubeconfig", "# by calico-node, renewed", 24, "# by calico-node, renewed"],
  ])("%s", (_, name, present, hours, expected) => {
    const path = join(host.netDir, name);
    writeFileSync(path, kubeconfig(inHours(hours)));
    remember(host.netDir, [path]);
    const first =
      present === "ours"
        ? "# Kubeconfig of the CNI plugins. Written by the installer, which replaces it when its token is renewed."
        : present;
    writeWhole(path, kubeconfig(inHours(24), first), 0o600);

    uninstall(host.netDir, false, () => {});

    expect(readFileSync(path, "utf8").startsWith(expected)).toBe(true);
    expect(names(host.netDir)).toEqual([name]);
  });

  it("is what a dry run would leave", async () => {
    await install(host.settings(), () => {});
    writeFileSync(join(host.binDir, "tortie-ipam.new"), "Calico's");
    renameSync(join(host.binDir, "tortie-ipam.new"), join(host.binDir, "tortie-ipam"));
    const said: string[] = [];
    const files = uninstall(host.netDir, true, (line) => said.push(line));
    expect(files).toContain(join(host.binDir, "tortie"));
    expect(files).not.toContain(join(host.binDir, "tortie-ipam"));
    expect(said).toContain(`would leave ${join(host.binDir, "tortie-ipam")}, which was put there after the installation`);
    expect(said).toContain(`would remove ${join(host.binDir, "tortie")}`);
    expect(names(host.binDir).sort()).toEqual(["tortie", "tortie-ipam", "tortiectl"]);
    expect(readdirSync(host.netDir)).toContain(".tortie-install");
  });

  it("is all that is left: neither the record nor what an installer that died had begun", async () => {
    await install(host.settings(), () => {});
    writeFileSync(join(host.netDir, "10-tortie.conflist.tmp"), "half");
    writeFileSync(join(host.binDir, "tortie.0123456789abcdef.tmp"), "half");
    for (const name of ["calico-tls.tmp", "calico-tls.0123456789abcdef.tmp"]) mkdirSync(join(host.netDir, name));
    writeFileSync(join(host.netDir, "99-other.conf"), "{}");
    uninstall(host.netDir, false, () => {});
    expect([readdirSync(host.netDir), readdirSync(host.binDir)]).toEqual([["99-other.conf"], []]);
  });
});

describe("What the installation has put there", () => {
  it("is known although its file system has another device number, as after a reboot", () => {
    const path = join(host.netDir, "tortie");
    writeFileSync(path, "ours");
    noteInstalled(host.netDir, [path]);
    const record = readRecord(host.netDir);
    const noted = Object.fromEntries(Object.entries(record.installed).map(([name, text]) => [name, `4711:${text}`]));
    writeRecord(host.netDir, { ...record, files: [path], installed: noted });
    expect(uninstall(host.netDir, false, () => {})).toEqual([path]);
    expect(visible()).toEqual([]);
  });
});

describe("A list that the installation replaced", () => {
  it("is back before ours goes, so that runtimes can delete the pods that are waited for", async () => {
    writeFileSync(join(host.netDir, "10-calico.conflist"), "{}");
    await install(host.settings(), () => {});
    const said: string[] = [];
    uninstallConflist(host.netDir, (line) => said.push(line));
    expect(said).toEqual([
      `${join(host.netDir, "10-calico.conflist")} is what it was before`,
      `${join(host.netDir, "10-tortie.conflist")} removed`,
    ]);
    expect(visible()).toContain("10-calico.conflist");

    said.length = 0;
    uninstall(host.netDir, false, (line) => said.push(line));
    expect(said.filter((line) => line.includes("10-calico"))).toEqual([]);
    expect(visible()).toEqual(["10-calico.conflist"]);
  });
});

describe("waiting for the pods of a host", () => {
  const link = (name: string, alias: string) => {
    mkdirSync(join(host.netDir, name));
    writeFileSync(join(host.netDir, name, "ifalias"), `${alias}\n`);
  };

  it("counts links of Tortie's pods alone", () => {
    link("cali1", "tortie:k8s-pod-network/abc/eth0/default/web");
    link("cali2", "");
    link("eth0", "uplink");
    mkdirSync(join(host.netDir, "gone"));
    expect(linksOfPods(host.netDir)).toEqual(["cali1"]);
  });

  it("ends with the last of them, and says once a minute how many there are", async () => {
    const lines: string[] = [];
    let looks = 0;
    const links = () => Array.from({ length: looks++ < 61 ? 2 : 0 }, (_, index) => `cali${index}`);
    const isDone = await untilNoPodIsLeft((line) => lines.push(line), new AbortController().signal, {
      links,
      clock: { sleep: () => Promise.resolve() },
    });
    expect(isDone).toBe(true);
    expect(looks).toBe(62);
    expect(lines.map((line) => line.split(" ")[0])).toEqual(["2", "2"]);
  });

  it("ends without having seen the last of them when it is asked to", async () => {
    expect(await untilNoPodIsLeft(() => {}, AbortSignal.abort(), { links: () => ["cali1"] })).toBe(false);
  });
});
