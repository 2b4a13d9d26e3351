/** Which list an installation leaves over one that is there, and what that list needs of the host. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { plannedList } from "../../../installer/merge.ts";
import { needsOfList } from "../../../installer/preflight.ts";
import { writeRecord } from "../../../installer/record.ts";
import { fresh, TemporaryDirectory } from "../../support/fixtures.ts";

const directory = fresh(() => new TemporaryDirectory());

const listOf = (name: string, main: Readonly<Record<string, unknown>>) =>
  JSON.stringify({ name, cniVersion: "1.0.0", plugins: [{ type: "tortie", ...main }] });
const IPAM = { type: "tortie-ipam" };
const OURS = listOf("k8s-pod-network", { datastore_type: "kubernetes", ipam: IPAM, mtu: 1500 });

const planned = (theirs: string, keepsLists = true) => {
  writeFileSync(join(directory.path, "10-tortie.conflist"), theirs);
  return plannedList({ netDir: directory.path, confName: "10-tortie.conflist", keepsLists }, OURS);
};

describe("A list that this installer has not written", () => {
  it.each([
    [
      "another network",
      listOf("pods", { datastore_type: "kubernetes", ipam: IPAM }),
      'name is "pods"; the installer\'s would be "k8s-pod-network"',
    ],
    ["another datastore", listOf("k8s-pod-network", { datastore_type: "local", ipam: IPAM }), 'datastore_type is "local"'],
    ["pools of its own", listOf("k8s-pod-network", { datastore_type: "kubernetes", ipam: { ...IPAM, pools: [] } }), "ipam is"],
    [
      "etcd",
      listOf("k8s-pod-network", { datastore_type: "kubernetes", etcd_endpoints: "e", ipam: IPAM }),
      'etcd_endpoints is "e"; the installer\'s would be not set',
    ],
  ])("W2: stays byte for byte where it is for %s, and the difference is named", (_, theirs, difference) => {
    const { text, remarks, isKept } = planned(`${theirs}\n`);

    expect([text, isKept]).toEqual([`${theirs}\n`, true]);
    expect(remarks.at(-1)).toContain(difference);
  });

  it.each([
    ["is for the same network", listOf("k8s-pod-network", { datastore_type: "kubernetes", ipam: IPAM, mtu: 1400 })],
    ["has no plugin of ours", JSON.stringify({ name: "pods", plugins: [{ type: "bridge" }] })],
    ["is no JSON", "{"],
  ])("W2: is replaced where it %s", (_, theirs) => {
    expect(planned(theirs)).toMatchObject({ text: expect.stringContaining("k8s-pod-network"), isKept: false });
  });

  it("W2: is replaced by force, and by a template that was given", () => {
    expect(planned(listOf("pods", { datastore_type: "local" }), false)).toMatchObject({ text: OURS, isKept: false });
  });

  it("W2: is told by the record: of a list that was installed only what others changed stays", () => {
    writeRecord(directory.path, { files: [], formers: [], installed: {}, conflist: listOf("old", { datastore_type: "local" }) });
    expect(planned(listOf("old", { datastore_type: "local" }))).toMatchObject({ text: OURS, isKept: false });
  });
});

describe("What a list needs", () => {
  const places = () => ({
    netDir: directory.path,
    hostNetDir: "/etc/cni/net.d",
    serviceAccount: join(directory.path, "account"),
    confName: "10-tortie.conflist",
  });
  const severity = (main: Readonly<Record<string, unknown>>) => needsOfList(listOf("n", main), places()).map((one) => one.severity);
  const BY_KUBECONFIG = { datastore_type: "kubernetes", kubernetes: { kubeconfig: "/etc/cni/net.d/calico-kubeconfig" } };

  it("W2: is the kubeconfig that it names, in the directory as it is seen from here", () => {
    expect(severity(BY_KUBECONFIG)).toEqual(["missing"]);
    writeFileSync(join(directory.path, "calico-kubeconfig"), "");
    expect(severity(BY_KUBECONFIG)).toEqual(["ok"]);
  });

  it("W2: is nothing more in a pod, where the installer writes the kubeconfig", () => {
    mkdirSync(join(directory.path, "account"));
    writeFileSync(join(directory.path, "account/token"), "t");
    expect(severity(BY_KUBECONFIG)).toEqual(["ok"]);
  });

  it.each([
    [{ datastore_type: "local" }, []],
    [{ datastore_type: "etcdv3", etcd_endpoints: "" }, ["missing"]],
    [{ datastore_type: "etcdv3", etcd_endpoints: "http://127.0.0.1:2379" }, ["ok"]],
    [{ datastore_type: "kubernetes", k8s_api_root: "https://api" }, ["ok"]],
  ])("W2: of %j is %j", (main, found) => {
    expect(severity(main)).toEqual(found);
  });

  it("W2: is not judged for a list without our plugin", () => {
    expect(needsOfList('{"name": "n", "plugins": [{"type": "bridge"}]}', places())).toEqual([]);
  });
});
