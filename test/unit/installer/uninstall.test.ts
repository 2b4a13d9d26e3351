import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { linksOfPods, untilNoPodIsLeft } from "../../../installer/pods-of-host.ts";
import { writeRecord } from "../../../installer/record.ts";
import { uninstallConflist } from "../../../installer/uninstall.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "uninstall-"));
});
afterEach(() => rmSync(directory, { recursive: true }));

const file = (name: string) => {
  writeFileSync(join(directory, name), "{}");
  return join(directory, name);
};
const visible = () =>
  readdirSync(directory)
    .filter((name) => !name.startsWith("."))
    .sort();

describe("uninstallConflist", () => {
  it("takes the list away where another one stands beside it, and nothing else", () => {
    const files = [file("05-tortie.conflist"), file("calico-kubeconfig")];
    writeRecord(directory, { files, formers: [] });
    file("10-calico.conflist");
    uninstallConflist(directory, () => {});
    expect(visible()).toEqual(["10-calico.conflist", "calico-kubeconfig"]);
  });

  it("leaves the only list to the pods that have still to be deleted", () => {
    writeRecord(directory, { files: [file("10-tortie.conflist"), file("calico-kubeconfig")], formers: [] });
    uninstallConflist(directory, () => {});
    expect(visible()).toEqual(["10-tortie.conflist", "calico-kubeconfig"]);
  });
});

describe("waiting for the pods of a host", () => {
  const link = (name: string, alias: string) => {
    mkdirSync(join(directory, name));
    writeFileSync(join(directory, name, "ifalias"), `${alias}\n`);
  };

  it("counts links of Tortie's pods alone", () => {
    link("cali1", "tortie:k8s-pod-network/abc/eth0/default/web");
    link("cali2", "");
    link("eth0", "uplink");
    mkdirSync(join(directory, "gone"));
    expect(linksOfPods(directory)).toEqual(["cali1"]);
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
