/** What the controller makes in a new cluster, on a real API server with its own role; its minutes are the test's. */
import { ControllerTerm } from "../../support/controller-term.ts";
import { shared } from "../../support/fixtures.ts";
import { newClusterAccess } from "../../support/kubernetes/manifests.ts";
import { granted, usedBy } from "../../support/kubernetes/rights.ts";
import { type CalicoGroup, LEGACY, startCluster, V3 } from "../../support/kubernetes/test-cluster.ts";

const AUTO = { "ipv4-pool": "auto", "ipv6-pool": "auto", "cluster-information": "true" };

const cluster = shared(startCluster);
beforeEach(async () => {
  await cluster.reset();
  await cluster.remove("v1", "configmaps", KUBEADM.name, KUBEADM.namespace);
});

const KUBEADM = { name: "kubeadm-config", namespace: "kube-system" };

/** As `kubeadm init --pod-network-cidr` stores it. */
async function storeKubeadm(networking: object): Promise<void> {
  const configuration = { apiVersion: "kubeadm.k8s.io/v1beta4", kind: "ClusterConfiguration", kubernetesVersion: "v1.34.4", networking };
  const data = { ClusterConfiguration: Bun.YAML.stringify(configuration) };
  await cluster.apply({ apiVersion: "v1", kind: "ConfigMap", metadata: KUBEADM, data });
}

async function poolsOf(group: CalicoGroup = LEGACY): Promise<readonly (readonly [string, unknown])[]> {
  return (await cluster.list(group, "ippools")).map(({ metadata, spec }) => [metadata.name, spec?.cidr] as const);
}

const information = (group: CalicoGroup = LEGACY) => cluster.get(group, "clusterinformations", "default");

describe("a new cluster", () => {
  it.each<CalicoGroup>([LEGACY, V3])(
    "of kubeadm, with objects of %s, gets ClusterInformation and a pool of each family, by rights that are all needed",
    async (group) => {
      await storeKubeadm({ podSubnet: "10.244.0.0/16,fd00:10:244::/56", serviceSubnet: "10.96.0.0/12", dnsDomain: "cluster.local" });
      await cluster.createNode("node1", {}, { podCIDRs: ["10.244.0.0/24", "fd00:10:244::/64"] });
      const since = await cluster.mark();
      await using controller = await ControllerTerm.begin(cluster, AUTO, { group });
      await controller.minutes(1);
      await controller.sees("the pools", ({ pools }) => pools.length === 2);

      const pools = await cluster.list(group, "ippools");
      expect(pools.map(({ metadata, spec }) => [metadata.name, metadata.annotations, spec])).toEqual([
        ["default-ipv4", { "tortie.dev/range-from": "kubeadm's podSubnet" }, specOf("10.244.0.0/16", 26)],
        ["default-ipv6", { "tortie.dev/range-from": "kubeadm's podSubnet" }, specOf("fd00:10:244::/56", 122)],
      ]);
      expect((await information(group))?.spec).toEqual({ datastoreReady: true });
      expect(controller.term.duties.firstPools.refusals).toEqual([]);
      const { used, refused } = await usedBy(cluster, "tortie-controller", since);
      expect(refused).toEqual([]);
      expect([...granted(newClusterAccess())].filter((right) => !used.has(right))).toEqual([]);
    },
  );

  it("keeps what its administrator has changed, and gets back nothing that was deleted in the same term but the last pool", async () => {
    await storeKubeadm({ podSubnet: "10.244.0.0/16" });
    await cluster.createNode("node1");
    await using controller = await ControllerTerm.begin(cluster, { ...AUTO, "ipv6-pool": "none", "pool-finalizer": "false" });
    await controller.minutes(1);
    await controller.sees("the pool", ({ pools }) => pools.length === 1);
    await cluster.api("PATCH", `/apis/${LEGACY}/ippools/default-ipv4`, { spec: { natOutgoing: false } });
    await cluster.api("PATCH", `/apis/${LEGACY}/clusterinformations/default`, { spec: { datastoreReady: false } });
    await controller.minutes(2);
    expect((await cluster.get(LEGACY, "ippools", "default-ipv4"))?.spec).toMatchObject({ natOutgoing: false });
    expect((await information())?.spec).toMatchObject({ datastoreReady: false });

    // Another pool of the same family is there when the first one goes.
    await cluster.createPool("theirs", { cidr: "10.60.0.0/24" });
    await cluster.api("DELETE", `/apis/${LEGACY}/ippools/default-ipv4`);
    await cluster.api("DELETE", `/apis/${LEGACY}/clusterinformations/default`);
    await controller.sees("the other pool alone", ({ pools }) => pools.map(({ pool }) => pool.name).join() === "theirs");
    await controller.minutes(2);
    expect(await poolsOf()).toEqual([["theirs", "10.60.0.0/24"]]);
    expect(await information()).toBeUndefined();
  });

  it("without kubeadm gets pools of exactly its nodes' ranges, and more when nodes come", async () => {
    await cluster.createNode("node1", {}, { podCIDRs: ["10.42.0.0/24"] });
    await cluster.createNode("node2", {}, { podCIDRs: ["10.42.1.0/24"] });
    await using controller = await ControllerTerm.begin(cluster, { "ipv4-pool": "auto" });
    await controller.minutes(1);
    await controller.sees("the pool", ({ pools }) => pools.length === 1);
    expect(await poolsOf()).toEqual([["nodes-10-42-0-0-23", "10.42.0.0/23"]]);

    await cluster.createNode("node3", {}, { podCIDRs: ["10.42.7.0/24"] });
    await controller.sees("the node", (view) => view.hasNode("node3"));
    await controller.minutes(1);
    await controller.sees("the second pool", ({ pools }) => pools.length === 2);
    expect(await poolsOf()).toEqual([
      ["nodes-10-42-0-0-23", "10.42.0.0/23"],
      ["nodes-10-42-7-0-24", "10.42.7.0/24"],
    ]);
    expect(await information()).toBeUndefined();
  });

  it("that says nothing of its range gets no pool, and hears what to set; with the option's range it gets that one", async () => {
    await cluster.createNode("node1");
    await storeKubeadm({ serviceSubnet: "10.96.0.0/12" });
    {
      await using controller = await ControllerTerm.begin(cluster, { "ipv4-pool": "auto" });
      await controller.minutes(3);
      expect(controller.term.duties.firstPools.refusals).toEqual([expect.stringContaining("set --ipv4-pool=CIDR")]);
      expect(controller.log.filter((line) => line.includes("set --ipv4-pool=CIDR"))).toHaveLength(1);
      expect(await poolsOf()).toEqual([]);
    }
    await using controller = await ControllerTerm.begin(cluster, { "ipv4-pool": "10.70.0.0/16" });
    await controller.minutes(1);
    await controller.sees("the pool", ({ pools }) => pools.length === 1);
    expect(await poolsOf()).toEqual([["default-ipv4", "10.70.0.0/16"]]);
  });

  it("whose range holds an address of a node gets no pool", async () => {
    await storeKubeadm({ podSubnet: "10.244.0.0/16" });
    await cluster.createNode("node1");
    const status = { addresses: [{ type: "InternalIP", address: "10.244.9.9" }] };
    await cluster.api("PATCH", "/api/v1/nodes/node1/status", { status });
    await using controller = await ControllerTerm.begin(cluster, { "ipv4-pool": "auto" });
    await controller.minutes(1);
    expect(controller.term.duties.firstPools.refusals).toEqual([expect.stringContaining("10.244.9.9 inside is an address of node node1")]);
    expect(await poolsOf()).toEqual([]);
  });
});

function specOf(cidr: string, blockSize: number): object {
  return {
    cidr,
    blockSize,
    vxlanMode: "CrossSubnet",
    ipipMode: "Never",
    natOutgoing: true,
    nodeSelector: "all()",
    allowedUses: ["Workload", "Tunnel"],
  };
}
