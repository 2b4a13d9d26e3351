/** What the controller does about nodes that are gone, on a real API server with its own role. Its minutes are the test's. */
import { ClusterAddresses, NAMESPACE } from "../../support/cluster-addresses.ts";
import { ControllerTerm } from "../../support/controller-term.ts";
import { shared } from "../../support/fixtures.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";

const NONE = { addresses: [], blocks: [], affinities: [] };

const cluster = shared(startCluster);
const addresses = shared(() => ClusterAddresses.open(cluster));
beforeEach(async () => {
  await addresses.clear(["node1", "node2"]);
  await cluster.createPool("pool", { cidr: "10.60.0.0/24", blockSize: 29 });
});

const removeNode = (name: string) => cluster.remove("v1", "nodes", name);
const endpointObject = (pod: string, node: string) => ({
  apiVersion: "tortie.dev/v1alpha1",
  kind: "TortieEndpoint",
  metadata: { name: pod, namespace: NAMESPACE },
  spec: { id: 7, node, podUID: "u", containerID: `${pod}-c`, addresses: [] },
});

describe("a node that is deleted", () => {
  it("keeps everything through the grace period, and loses addresses, tunnel, blocks, handles and objects after it", async () => {
    await addresses.addPod("node1", "web");
    await addresses.takeTunnel("node1");
    const other = await addresses.addPod("node2", "other");
    for (const [pod, node] of [
      ["web", "node1"],
      ["other", "node2"],
    ] as const)
      await cluster.apply(endpointObject(pod, node));
    const before = await addresses.of("node1");
    expect(before).toMatchObject({ addresses: [expect.any(String), expect.any(String)], blocks: [expect.any(String)] });
    await using controller = await ControllerTerm.begin(cluster);
    await removeNode("node1");
    await addresses.removePod("web");
    await controller.sees("the node gone", (view) => !view.hasNode("node1") && view.pod(NAMESPACE, "web") === undefined);

    // The first look comes after a minute; five more are the grace period.
    await controller.minutes(5);
    expect(await addresses.of("node1")).toEqual(before);
    expect(await cluster.list("tortie.dev/v1alpha1", "tortieendpoints", NAMESPACE)).toHaveLength(2);
    await controller.minutes(2);
    expect(await addresses.of("node1")).toEqual(NONE);
    expect((await addresses.datastore.handles.list()).map(({ value }) => value.id)).toEqual(["net1.other-c"]);
    expect((await cluster.list("tortie.dev/v1alpha1", "tortieendpoints", NAMESPACE)).map(({ metadata }) => metadata.name)).toEqual([
      "other",
    ]);
    expect((await addresses.of("node2")).addresses).toEqual([other]);
    expect(await addresses.damage()).toEqual([]);
  });

  it("loses nothing when it comes back within the grace period, which begins anew afterwards", async () => {
    await addresses.take("node1", "web");
    const before = await addresses.of("node1");
    await using controller = await ControllerTerm.begin(cluster);
    for (let time = 0; time < 2; time++) {
      await removeNode("node1");
      await controller.sees("the node gone", (view) => !view.hasNode("node1"));
      await controller.minutes(4);
      await cluster.createNode("node1");
      await controller.sees("the node back", (view) => view.hasNode("node1"));
      await controller.minutes(2);
    }
    expect(await addresses.of("node1")).toEqual(before);
  });

  it("keeps the addresses that a pod object still holds, and gives up the rest", async () => {
    const held = await addresses.addPod("node1", "held");
    await addresses.take("node1", "gone");
    await using controller = await ControllerTerm.begin(cluster);
    await removeNode("node1");
    await controller.sees("the node gone", (view) => !view.hasNode("node1"));
    await controller.minutes(8);
    expect((await addresses.of("node1")).addresses).toEqual([held]);
    await addresses.removePod("held");
    await controller.sees("the pod gone", (view) => view.pod(NAMESPACE, "held") === undefined);
    await controller.minutes(3);
    expect(await addresses.of("node1")).toEqual(NONE);
  });

  it("G15: keeps its tunnel while one of its pods keeps an address, and containers without a pod for ever", async () => {
    const held = await addresses.addPod("node1", "held");
    await addresses.take("node1", "gone");
    const tunnel = await addresses.takeTunnel("node1");
    await using controller = await ControllerTerm.begin(cluster);
    await removeNode("node1");
    await controller.sees("the node gone", (view) => !view.hasNode("node1"));
    await controller.minutes(8);
    expect((await addresses.of("node1")).addresses).toEqual([held, tunnel].sort());

    await addresses.removePod("held");
    await controller.sees("the pod gone", (view) => view.pod(NAMESPACE, "held") === undefined);
    await controller.minutes(3);
    expect(await addresses.of("node1")).toEqual(NONE);

    const container = await addresses.takeContainer("node2", "c1");
    await removeNode("node2");
    await controller.sees("the other node gone", (view) => !view.hasNode("node2"));
    await controller.minutes(8);
    expect((await addresses.of("node2")).addresses).toEqual([container]);
  });

  it("G15: that comes back while its pods are asked for loses nothing", async () => {
    await addresses.take("node1", "web");
    await addresses.takeTunnel("node1");
    const before = await addresses.of("node1");
    await using proxy = await cluster.proxy();
    await using controller = await ControllerTerm.begin(proxy);
    await removeNode("node1");
    await controller.sees("the node gone", (view) => !view.hasNode("node1"));
    proxy.on({ method: "GET", path: `/namespaces/${NAMESPACE}/pods/web` }, { kind: "before", action: () => cluster.createNode("node1") });
    await controller.minutes(8);
    expect(controller.log.join("\n")).toContain("node node1 exists although the watch does not show it");
    expect(await addresses.of("node1")).toEqual(before);
  });

  it("releases what a pod of that name held, and not what the new pod of that name holds elsewhere", async () => {
    await addresses.addPod("node1", "web-0", "old");
    await addresses.removePod("web-0");
    const present = await addresses.addPod("node2", "web-0", "new");
    await using controller = await ControllerTerm.begin(cluster);
    await removeNode("node1");
    await controller.sees("the node gone", (view) => !view.hasNode("node1"));
    await controller.minutes(8);
    expect(await addresses.of("node1")).toEqual(NONE);
    expect((await addresses.of("node2")).addresses).toEqual([present]);
  });

  it("has the annotations of its pods blanked that have ended, before their addresses go", async () => {
    await addresses.addPod("node1", "job");
    await cluster.api("PATCH", `/api/v1/namespaces/${NAMESPACE}/pods/job/status`, { status: { phase: "Failed" } });
    await using controller = await ControllerTerm.begin(cluster);
    await removeNode("node1");
    await controller.sees("the node gone", (view) => !view.hasNode("node1"));
    await controller.minutes(8);
    const pod = await cluster.get("v1", "pods", "job", NAMESPACE);
    expect(pod?.metadata.annotations).toMatchObject({ "cni.projectcalico.org/podIPs": "", "cni.projectcalico.org/containerID": "job-c" });
    expect(await addresses.of("node1")).toEqual(NONE);
  });
});

describe("a controller that dies in the middle", () => {
  it("leaves, after whichever of its writes, a state that the next one finishes", async () => {
    let isDone = false;
    for (let writes = 0; !isDone; writes++) {
      await addresses.take("node1", "web");
      await addresses.takeTunnel("node1");
      {
        await using dying = await ControllerTerm.begin(cluster, { "pool-finalizer": "false" }, { mostWrites: writes });
        await removeNode("node1");
        await dying.sees("the node gone", (view) => !view.hasNode("node1"));
        await dying.minutes(8);
        isDone = !dying.log.some((line) => line.includes("does not lead any more"));
      }
      await using next = await ControllerTerm.begin(cluster, { "pool-finalizer": "false" });
      await next.minutes(7);
      expect([writes, await addresses.of("node1"), await addresses.damage()]).toEqual([writes, NONE, []]);
      expect(await addresses.datastore.handles.list()).toEqual([]);
      await cluster.createNode("node1");
      expect(writes).toBeLessThan(30);
    }
  });
});
