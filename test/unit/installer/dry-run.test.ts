/** What a dry run says, and that it is what an installation then does. */
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { install, listToBe, planInstallation } from "../../../installer/install.ts";
import { fresh } from "../../support/fixtures.ts";
import { InstallDirectories } from "../../support/install-directories.ts";

const host = fresh(() => new InstallDirectories());

const NAMES = ["tortie", "tortie-ipam", "tortiectl"];
const inBin = (name: string) => join(host.binDir, name);
const inNet = (name: string) => join(host.netDir, name);

describe("A dry run", () => {
  it("names every file that an installation would write, and writes none", () => {
    host.addSecrets("etcd-ca", "etcd-key");
    expect(planInstallation(host.settings())).toEqual([
      ...NAMES.map((name) => `would write ${inBin(name)}`),
      ...["etcd-ca", "etcd-key"].map((name) => `would install ${inNet(`calico-tls/${name}`)}`),
      `would write ${inNet("10-tortie.conflist")}`,
    ]);
    expect([...host.visible(host.binDir), ...host.visible(host.netDir)]).toEqual([]);
  });

  it("finds nothing to do after the installation, and the list is the one it foretold", async () => {
    const settings = host.settings();
    const foretold = listToBe(settings);
    await install(settings, host.log);
    expect(await Bun.file(inNet("10-tortie.conflist")).text()).toBe(foretold);
    expect(planInstallation(settings)).toEqual([...NAMES.map(inBin), inNet("10-tortie.conflist")].map((path) => `${path} is up to date`));
  });

  it("says what would be replaced, and what would go: an executable, a list, the list of the former name", async () => {
    const settings = host.settings();
    await install(settings, host.log);
    rmSync(inBin("tortie"));
    writeFileSync(inBin("tortie"), "older");
    rmSync(inNet("10-tortie.conflist"));
    writeFileSync(inNet("10-calico.conflist"), "{}");
    expect(planInstallation(settings)).toEqual([
      `would replace ${inBin("tortie")}`,
      `${inBin("tortie-ipam")} is up to date`,
      `${inBin("tortiectl")} is up to date`,
      `would write ${inNet("10-tortie.conflist")}`,
      `would remove ${inNet("10-calico.conflist")}`,
    ]);
  });

  it("does not remove a list whose former name is its own", () => {
    writeFileSync(inNet("10-tortie.conflist"), "{}");
    const lines = planInstallation(host.settings({ CNI_OLD_CONF_NAME: "10-tortie.conflist" }));
    expect(lines.filter((line) => line.startsWith("would remove"))).toEqual([]);
  });

  it("in a pod promises a kubeconfig, and where lists cannot be written says that the installation would fail", () => {
    host.addServiceAccount({ token: "t" });
    rmSync(host.netDir, { recursive: true });
    const lines = planInstallation(host.settings());
    expect(lines).toContain(`would write ${inNet("calico-kubeconfig")} with a new token`);
    expect(lines).toContain(`${host.netDir} cannot be written (ENOENT): the installation would fail`);
  });
});
