/** `tortiectl ipam` on a real cluster. Blocks, handles and pods are written by plain HTTP, as Calico's own components leave them. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { shared, TemporaryDirectory } from "../../support/fixtures.ts";
import { type EndedProgram, runProgram } from "../../support/kubernetes/process.ts";
import { ipamConfigurationOf } from "../../support/kubernetes/resources.ts";
import { type CalicoGroup, type Fields, LEGACY, startCluster, V3 } from "../../support/kubernetes/test-cluster.ts";
import { BIN_DIR } from "../../support/node.ts";
import { nameOf, ordinals, putAffinity, putBlock, putHandle } from "../ipam-plugin/calico-objects.ts";

const GROUPS: readonly CalicoGroup[] = [LEGACY, V3];
const NODE = "worker-1";
const BLOCK = "10.60.0.8/29";
const POD_IP = "cni.projectcalico.org/podIP";

let admin: string;
const cluster = shared(startCluster);
const directory = shared(() => new TemporaryDirectory());
beforeAll(async () => {
  admin = await cluster.kubeconfigFor("admin");
});
beforeEach(async () => {
  await cluster.reset();
  await cluster.setReady(true);
});

function tortiectl(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<EndedProgram> {
  return runProgram(join(BIN_DIR, "tortiectl"), ["ipam", ...args], env);
}

/** On the whole cluster of the test, as its administrator. */
function ipam(verb: string, group: CalicoGroup, ...args: string[]): Promise<EndedProgram> {
  return tortiectl([verb, "--kubeconfig", admin, ...args], { CALICO_API_GROUP: group });
}

/** A pool with one block of worker-1: 10.60.0.8 is pod web's, 10.60.0.9 that of a pod that is gone for long. */
async function setTheScene(group: CalicoGroup): Promise<void> {
  await cluster.createNode(NODE);
  await cluster.createPool("small", { group, cidr: "10.60.0.0/26", blockSize: 29 });
  await cluster.createPod("web", { node: NODE, annotations: announced("10.60.0.8", "c1") });
  const owner = (pod: string) => ({ node: NODE, namespace: "default", pod, timestamp: "2026-08-22 13:33:24.5 +0000 UTC" });
  const place = { cluster, group };
  await putBlock(place, BLOCK, {
    affinity: `host:${NODE}`,
    ...ordinals({ 0: 0, 1: 1 }, 8),
    attributes: [
      { handle_id: "k8s-pod-network.c1", secondary: owner("web") },
      { handle_id: "k8s-pod-network.c2", secondary: owner("gone") },
    ],
    sequenceNumberForAllocation: { "0": 1787405600123456000n, "1": 1787405600123456001n },
  });
  await putAffinity(place, NODE, BLOCK);
  for (const container of ["c1", "c2"]) await putHandle(place, `k8s-pod-network.${container}`, { [BLOCK]: 1 });
}

function announced(address: string, containerID: string): Readonly<Record<string, string>> {
  return { [POD_IP]: `${address}/32`, "cni.projectcalico.org/podIPs": `${address}/32`, "cni.projectcalico.org/containerID": containerID };
}

async function blockSpec(group: CalicoGroup): Promise<Fields> {
  return (await cluster.get(group, "ipamblocks", nameOf(BLOCK)))?.spec ?? {};
}

async function handles(group: CalicoGroup): Promise<readonly string[]> {
  return (await cluster.list(group, "ipamhandles")).map(({ metadata }) => metadata.name).sort();
}

describe.each(GROUPS)("tortiectl ipam on a cluster with %s", (group) => {
  beforeEach(() => setTheScene(group));

  it("shows how full the pools and blocks are", async () => {
    const run = await ipam("show", group, "--blocks");
    expect(run).toMatchObject({ exit: 0, stderr: "" });
    expect(run.stdout).toContain(`Kubernetes API server ${cluster.server}, group ${group}`);
    expect(run.stdout).toContain("2 used, 62 free of 64");
    expect(run.stdout).toContain(`10.60.0.8/29  of host ${NODE}`);
  });

  it("says who has an address, down to the pod", async () => {
    const run = await ipam("show", group, "--ip", "10.60.0.8", "--json");
    expect(JSON.parse(run.stdout)).toMatchObject({
      standing: "used",
      handle: "k8s-pod-network.c1",
      node: NODE,
      pod: "default/web",
      sequenceNumber: "1787405600123456000",
      endpoint: "default/worker--1-k8s-web-eth0",
      pool: "10.60.0.0/26 (small)",
    });
  });

  it("finds the address of a pod that is gone, and releases it when told to", async () => {
    const found = await ipam("check", group, "--settle", "0");
    expect(found.exit).toBe(1);
    expect(found.stdout).toContain("address 10.60.0.9 is allocated to handle k8s-pod-network.c2");
    expect((await blockSpec(group)).allocations).toEqual([0, 1, null, null, null, null, null, null]);

    const mended = await ipam("check", group, "--settle", "0", "--repair");
    expect(mended).toMatchObject({ exit: 0 });
    expect((await blockSpec(group)).allocations).toEqual([0, null, null, null, null, null, null, null]);
    expect((await blockSpec(group)).attributes).toEqual([expect.objectContaining({ handle_id: "k8s-pod-network.c1" })]);
    expect(await handles(group)).toEqual(["k8s-pod-network.c1"]);
    expect((await ipam("check", group, "--settle", "0")).stdout).toContain("ok");
  });

  it("gives back the address of a container", async () => {
    const run = await ipam("release", group, "--container", "c2");
    expect(run).toMatchObject({ exit: 0, stdout: expect.stringContaining("released 10.60.0.9") });
    expect((await blockSpec(group)).unallocated).toEqual([2, 3, 4, 5, 6, 7, 1]);
    expect(await handles(group)).toEqual(["k8s-pod-network.c1"]);
  });

  it("warns when a pod still uses what was released", async () => {
    const run = await ipam("release", group, "--ip", "10.60.0.8");
    expect(run.stderr).toContain("endpoint default/worker--1-k8s-web-eth0 still uses 10.60.0.8");
  });

  it("makes the IPAM configuration, changes it, and refuses what Calico would", async () => {
    const { plural } = ipamConfigurationOf(group);
    expect(await ipam("configure", group, "--strict-affinity", "--max-blocks-per-host", "4")).toMatchObject({ exit: 0 });
    expect((await cluster.get(group, plural, "default"))?.spec).toMatchObject({
      strictAffinity: true,
      autoAllocateBlocks: true,
      maxBlocksPerHost: 4,
    });
    expect(await ipam("configure", group, "--ip-cooldown-seconds", "60")).toMatchObject({ exit: 0 });
    expect((await cluster.get(group, plural, "default"))?.spec).toMatchObject({ maxBlocksPerHost: 4, ipCooldownSeconds: 60 });
    const refused = await ipam("configure", group, "--no-strict-affinity");
    expect(refused).toMatchObject({ exit: 2, stderr: expect.stringContaining("option-invalid") });
  });
});

describe("tortiectl ipam check, with pods as endpoints", () => {
  beforeEach(() => setTheScene(LEGACY));

  it("counts a pod that has ended as one without address", async () => {
    await cluster.createPod("web", { node: NODE, annotations: announced("10.60.0.8", "c1"), status: { phase: "Succeeded" } });
    const report = JSON.parse((await ipam("check", LEGACY, "--settle", "0", "--strict", "--json")).stdout);
    expect(report.problems.map(({ kind, addresses }: Fields) => ({ kind, addresses }))).toEqual([
      { kind: "address-unused", addresses: ["10.60.0.8"] },
      { kind: "address-unused", addresses: ["10.60.0.9"] },
    ]);
  });

  it("allocates an address that a pod uses and nobody holds", async () => {
    const status = { phase: "Running", podIP: "10.60.0.13", podIPs: [{ ip: "10.60.0.13" }] };
    await cluster.createPod("lost", { node: NODE, annotations: announced("10.60.0.13", "c9"), status });
    expect((await ipam("check", LEGACY, "--settle", "0", "--repair")).exit).toBe(0);
    const { allocations, attributes }: { readonly allocations?: readonly number[]; readonly attributes?: readonly Fields[] } =
      await blockSpec(LEGACY);
    expect(attributes?.[allocations?.[5] ?? -1]).toEqual({
      handle_id: "default.lost",
      secondary: { node: NODE, namespace: "default", pod: "lost" },
    });
    expect(await handles(LEGACY)).toContain("default.lost");
  });

  it("S17: allocates nothing that only a pod's annotations name", async () => {
    await cluster.createPod("greedy", { node: NODE, annotations: announced("10.60.0.13", "c9") });
    const run = await ipam("check", LEGACY, "--settle", "0", "--repair");
    expect(run.exit).toBe(1);
    expect(run.stdout).toContain("only annotations of the pod name the address");
    expect((await blockSpec(LEGACY)).allocations).toEqual([0, null, null, null, null, null, null, null]);
    expect(await handles(LEGACY)).toEqual(["k8s-pod-network.c1"]);
  });

  it("names a pod whose annotation cannot be read, and mends nothing on such grounds", async () => {
    await cluster.createPod("odd", { node: NODE, annotations: { [POD_IP]: "nonsense", "cni.projectcalico.org/podIPs": "nonsense" } });
    const run = await ipam("check", LEGACY, "--settle", "0", "--repair");
    expect(run.exit).toBe(1);
    expect(run.stdout).toMatch(/problem .*odd.*nonsense/s);
    expect((await blockSpec(LEGACY)).allocations).toEqual([0, 1, null, null, null, null, null, null]);
  });
});

describe("tortiectl ipam with the rights of the plugins' account", () => {
  it("shows and releases, and says what it may not find out", async () => {
    await setTheScene(LEGACY);
    const kubeconfig = await cluster.kubeconfigFor("cni");
    const as = (...args: string[]) => tortiectl([...args, "--kubeconfig", kubeconfig]);
    expect((await as("show")).stdout).toContain("2 used, 62 free of 64");
    expect((await as("show", "--ip", "10.60.0.8")).stdout).toContain("unknown: this account may not list pods");
    const released = await as("release", "--ip", "10.60.0.9");
    expect(released).toMatchObject({ exit: 0, stdout: expect.stringContaining("released 10.60.0.9") });
    expect(released.stderr).toContain("may not list pods");
    const checked = await as("check");
    expect(checked).toMatchObject({ exit: 1, stdout: "" });
    expect(checked.stderr).toContain('cannot list resource "pods"');
    expect(checked.stderr).toContain("give a --kubeconfig whose account has that right");
  });

  it("names the pools that a stranger may not list", async () => {
    const run = await tortiectl(["show", "--kubeconfig", await cluster.kubeconfigFor("stranger"), "--json"], { CALICO_API_GROUP: LEGACY });
    expect([run.exit, JSON.parse(run.stdout)]).toEqual([
      1,
      {
        error: expect.objectContaining({
          word: "datastore-forbidden",
          message: expect.stringContaining('cannot list resource "ipreservations"'),
        }),
      },
    ]);
  });
});

describe("the cluster that tortiectl ipam is about", () => {
  beforeEach(() => setTheScene(LEGACY));

  it("is that of a network configuration", async () => {
    const file = join(directory.path, "10-tortie.conflist");
    const plugin = { type: "tortie", datastore_type: "kubernetes", kubernetes: { kubeconfig: admin }, ipam: { type: "tortie-ipam" } };
    writeFileSync(file, JSON.stringify({ cniVersion: "1.0.0", name: "k8s-pod-network", plugins: [plugin] }));
    expect((await tortiectl(["show", "--conf", file])).stdout).toContain("2 used, 62 free of 64");
  });

  it("is that of the environment when nothing else is given", async () => {
    expect((await tortiectl(["show"], { KUBECONFIG: admin })).stdout).toContain("2 used, 62 free of 64");
  });

  it("is that of --kubeconfig, whatever the environment says", async () => {
    const env = { DATASTORE_TYPE: "local", CALICO_KUBECONFIG: "/nowhere", K8S_API_ENDPOINT: "https://127.0.0.1:1" };
    expect((await tortiectl(["show", "--kubeconfig", admin], env)).stdout).toContain("2 used, 62 free of 64");
  });

  it("cannot be named twice", async () => {
    const run = await tortiectl(["show", "--kubeconfig", admin, "--datastore", "/tmp/a.db"]);
    expect(run).toMatchObject({ exit: 2, stderr: expect.stringContaining("mutually exclusive") });
  });

  it("is named when it cannot be reached, as is a file that cannot be read", async () => {
    const unreachable = await cluster.kubeconfigFor("admin", "https://127.0.0.1:1");
    const run = await tortiectl(["show", "--kubeconfig", unreachable]);
    expect(run).toMatchObject({ exit: 1, stderr: expect.stringContaining("https://127.0.0.1:1") });
    expect(run.stderr).toContain("datastore-unavailable");
    expect((await tortiectl(["show", "--kubeconfig", "/nowhere/kubeconfig"])).stderr).toContain("/nowhere/kubeconfig");
  });
});
