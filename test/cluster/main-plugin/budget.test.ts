/** What an operation costs the API server: requests by its audit log, connections by a proxy on the way (the "Cost"). */
import { fresh, shared } from "../../support/fixtures.ts";
import { ApiServerNode, NAMESPACE } from "../../support/kubernetes/api-server-node.ts";
import { LEGACY, startCluster, V3 } from "../../support/kubernetes/test-cluster.ts";
import { phrases } from "../../support/words.ts";

const cluster = shared(startCluster);

/** Verb and path of what `operation` asks, without the servers' roots. */
async function requestsOf(operation: () => Promise<unknown>): Promise<string[]> {
  const mark = await cluster.mark();
  await operation();
  return (await cluster.requests(mark)).map(
    ({ verb, uri }) => `${verb} ${uri.replace(/^\/apis?\/([a-z.]+\/)?v[13]\//, "").replace(/\?.*/, "")}`,
  );
}

const configurationsOf = (group: typeof LEGACY | typeof V3) => (group === LEGACY ? "ipamconfigs" : "ipamconfigurations");

describe.each([LEGACY, V3] as const)("Requests of one operation, %s", (group) => {
  const node = fresh(() => ApiServerNode.create(cluster, { group }));

  it("are ten for the ADD of an ordinary pod on a node that has a block", async () => {
    await node.pool("pool4", "10.60.0.0/26");
    await node.pod("first");
    await node.add({ pod: "first", container: "c0" });
    await node.pod("pod");
    const sandbox = await node.sandbox("second");

    const requests = await requestsOf(() => node.add({ sandbox }));

    expect(requests).toEqual(phrases`
      get clusterinformations/default, get namespaces/test/pods/pod, get namespaces/test, list ippools,
      list blockaffinities, list ipreservations, get ipamblocks/10-60-0-0-26, create ipamhandles,
      update ipamblocks/10-60-0-0-26, patch namespaces/test/pods/pod/status
    `);
  });

  it("are 21 for the first ADD of a node, which claims a block: three of them make sure of pools, node and reservations, three of blocks and owners", async () => {
    await node.pool("pool4", "10.60.0.0/26");
    await node.pod("pod");
    await node.sandbox();

    const requests = await requestsOf(() => node.add());

    expect(requests).toEqual([
      "get clusterinformations/default",
      "get namespaces/test/pods/pod",
      "get namespaces/test",
      "list ippools",
      "list blockaffinities",
      "list ipreservations",
      // No block is known: from here on nothing may be from the server's memory.
      "list blockaffinities",
      `get ${configurationsOf(group)}/default`,
      "get ipamblocks/10-60-0-0-26",
      "list ippools", // F1
      "list blockaffinities", // affinities without labels
      "get nodes/node1", // R2
      "create blockaffinities",
      "list blockaffinities", // overlaps
      "list ipamblocks",
      "create ipamblocks",
      "update blockaffinities/node1-10-60-0-0-26",
      "list ipreservations", // F1
      "create ipamhandles",
      "update ipamblocks/10-60-0-0-26",
      "patch namespaces/test/pods/pod/status",
    ]);
  });

  it("are no more for the handle where the node's only block turns out to be full", async () => {
    await node.pool("pool4", "10.60.0.0/29", { blockSize: 30 });
    for (const name of ["a", "b", "c", "d"]) {
      await node.pod(name);
      await node.add(await node.callOf(name, name));
    }
    await node.pod("pod");
    const sandbox = await node.sandbox("fifth");

    const requests = await requestsOf(() => node.add({ sandbox }));

    expect(requests.filter((request) => request.includes("ipamhandles"))).toEqual(["create ipamhandles"]);
    expect(requests[6]).toContain("get ipamblocks/10-60-0-");
    expect(await cluster.list(group, "ipamblocks")).toHaveLength(2);
  });

  it("are ten for a pod that chooses its family, whatever the configuration has on: nothing is listed that it does not want", async () => {
    await node.pool("pool4", "10.60.0.0/26");
    await node.pool("pool6", "fd60::/122");
    const annotations = { "cni.projectcalico.org/ipFamilies": '["IPv6"]' };
    await node.pod("first", { annotations });
    await node.add({ pod: "first", container: "c0" });
    await node.pod("pod", { annotations });
    const sandbox = await node.sandbox("second");

    const requests = await requestsOf(() => node.add({ sandbox }));

    expect(requests.filter((request) => request.startsWith("list "))).toEqual([
      "list ippools",
      "list blockaffinities",
      "list ipreservations",
    ]);
    expect(requests).toHaveLength(10);
  });

  it("are eight for its DEL, and four for a DEL that finds nothing left", async () => {
    await node.pool("pool4", "10.60.0.0/26");
    await node.pod("pod");
    await node.add();

    const requests = await requestsOf(() => node.del());
    // The address is released last; in which order the release reads is its own business.
    expect(requests.slice(0, 2)).toEqual(["get clusterinformations/default", "patch namespaces/test/pods/pod/status"]);
    expect(requests.slice(2).sort()).toEqual([
      "delete ipamhandles/net1.c1",
      "get ipamblocks/10-60-0-0-26",
      `get ${configurationsOf(group)}/default`,
      "get ipamhandles/net1.c1",
      "get ipamhandles/test.pod",
      "update ipamblocks/10-60-0-0-26",
    ]);
    const nothing = [
      "get clusterinformations/default",
      "patch namespaces/test/pods/pod/status",
      "get ipamhandles/net1.c1",
      "get ipamhandles/test.pod",
    ];
    expect(await requestsOf(() => node.del({ netns: "" }))).toEqual(nothing);
    await cluster.remove("v1", "pods", "pod", "test");
    expect(await requestsOf(() => node.del({ netns: "" }))).toEqual(nothing);
  });
});

describe("A pod that its virtual machine migrates to", () => {
  it("gets the machine's addresses, and asks for no list to choose others from", async () => {
    await using node = await ApiServerNode.create(cluster);
    node.node.excuse(
      "while a virtual machine migrates both its pods bear its address, which is granted to the machine",
      "doubled",
      "not-granted",
    );
    await node.pool("pool4", "10.60.0.0/26");
    const instance = await cluster.apply({
      apiVersion: "kubevirt.io/v1",
      kind: "VirtualMachineInstance",
      metadata: { name: "vm", namespace: NAMESPACE },
      spec: {},
    });
    const { apiVersion, kind, metadata } = instance;
    const ownerReferences = [{ apiVersion, kind, name: metadata.name, uid: metadata.uid, controller: true }];
    await node.pod("virt-launcher-vm-a", { ownerReferences });
    const { ips } = await node.add({ pod: "virt-launcher-vm-a", container: "a" });
    await node.pod("virt-launcher-vm-b", { ownerReferences, labels: { "kubevirt.io/migrationJobUID": "job-1" } });
    const sandbox = await node.sandbox("b");

    const requests = await requestsOf(async () => {
      expect((await node.add({ pod: "virt-launcher-vm-b", container: "b", sandbox })).ips).toEqual(ips);
    });

    expect(requests.filter((request) => request.startsWith("list "))).toEqual([]);
    expect(requests.slice(0, 3)).toEqual([
      "get clusterinformations/default",
      "get namespaces/test/pods/virt-launcher-vm-b",
      "get namespaces/test",
    ]);
  });
});

describe("Connections", () => {
  it("are one for an ADD and one for a DEL", async () => {
    await using proxy = await cluster.proxy();
    await using node = await ApiServerNode.create(cluster, { via: proxy, pools: ["10.60.0.0/26"], pods: ["pod"] });

    await node.add();
    expect(proxy.connections).toBe(1);
    await node.del();
    expect(proxy.connections).toBe(2);
  });
});

describe("A burst of pods on one node", () => {
  it("gives every pod an address of its own and takes them all back", async () => {
    const names = Array.from({ length: 20 }, (_, index) => `pod${index}`);
    await using node = await ApiServerNode.create(cluster, { pools: ["10.60.0.0/26"], pods: names });
    const calls = await Promise.all(names.map((name) => node.callOf(name)));

    const results = await Promise.all(calls.map((call) => node.add(call)));

    const addresses = results.map(({ ips }) => ips[0]?.address);
    expect(new Set(addresses).size).toBe(names.length);
    expect(Object.keys(await node.held())).toHaveLength(names.length);
    for (const [index, name] of names.entries()) expect((await node.annotations(name)).podIP).toBe(addresses[index]);

    await Promise.all(calls.map((call) => node.del(call)));
    await node.expectNothingLeft(...names);
  });
});
