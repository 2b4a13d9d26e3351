/** Sandboxes of one pod that come and go: rows K30 to K34 of C§11.2, and what design invariants 5 and 7 ask beside them. */
import { fresh, shared } from "../../support/fixtures.ts";
import { NAMESPACE } from "../../support/kubernetes/api-server-node.ts";
import { ALL_STORES, BOTH_STORES, ETCD, PodStores } from "../../support/kubernetes/pod-stores.ts";
import { LEGACY } from "../../support/kubernetes/test-cluster.ts";

const stores = shared(PodStores.start);

describe.each(ALL_STORES)("Sandboxes of a pod, %s", (store) => {
  it("K30: a late DEL of the old one leaves the endpoint of the new one", async () => {
    await using node = await stores.node(store, { pools: ["10.60.0.0/26"], pods: ["pod"] });
    await node.add({ container: "x" });
    await node.del({ container: "x" });
    const { ips } = await node.add({ container: "y" });

    await node.del({ container: "x" });

    expect(await node.record()).toMatchObject({ containerID: "y", podIP: ips[0]?.address });
    expect(Object.keys(await node.held())).toEqual(["net1.y"]);
    expect(await node.podAddresses()).toEqual([ips[0]?.address]);
    await node.del({ container: "y" });
    await node.expectNothingLeft("pod");
  });

  it("K31, K32: the new one has an address, a MAC and the link of its own, and the old one's address lives until its DEL", async () => {
    await using node = await stores.node(store, { pools: ["10.60.0.0/26"], pods: ["pod"] });
    const first = await node.add({ container: "x" });

    const second = await node.add({ container: "y" });

    expect(second.ips[0]?.address).not.toBe(first.ips[0]?.address);
    expect(second.interfaces[1]?.mac).not.toBe(first.interfaces[1]?.mac);
    expect(second.interfaces[0]).toEqual(first.interfaces[0]);
    expect(Object.keys(await node.held()).sort()).toEqual(["net1.x", "net1.y"]);
    expect(await node.record()).toMatchObject({ containerID: "y" });

    // Both have the same network namespace: the interface in it is the new one's.
    await node.del({ container: "x" });
    expect(await node.record()).toMatchObject({ containerID: "y", podIP: second.ips[0]?.address });
    expect(Object.keys(await node.held())).toEqual(["net1.y"]);
    expect(await node.podAddresses()).toEqual([second.ips[0]?.address]);
    expect(await node.hostRoutes()).toEqual([second.ips[0]?.address.replace("/32", "")]);

    await node.del({ container: "y" });
    expect(await node.record()).toEqual(store === ETCD ? {} : { containerID: "y", podIP: "", podIPs: "" });
    await node.expectNothingLeft("pod");
  });
});

describe.each(BOTH_STORES)("More sandboxes of a pod, %s", (store) => {
  const node = fresh(() => stores.node(store, { pools: ["10.60.0.0/26"] }));

  it("in network namespaces of their own: the old one's DEL touches nothing of the new one", async () => {
    await node.pod("pod");
    const old = await node.sandbox("old");
    const fresh = await node.sandbox("fresh");
    await node.add({ container: "x", sandbox: old });
    const { ips } = await node.add({ container: "y", sandbox: fresh });

    await node.del({ container: "x", sandbox: old });
    await node.del({ container: "x", netns: "" });

    expect(await node.podAddresses(fresh)).toEqual([ips[0]?.address]);
    expect(await node.record()).toMatchObject({ containerID: "y", podIP: ips[0]?.address });
    expect(Object.keys(await node.held())).toEqual(["net1.y"]);
  });

  it("K33: a second ADD that fails leaves the first one's address alone, whichever container it is for", async () => {
    await node.pod("pod");
    const { interfaces, ips } = await node.add({ container: "x" });
    const name = String(interfaces[0]?.name);
    await node.node.ip("link", "set", name, "down");
    await node.node.ip("link", "set", name, "name", "renamed");

    for (const container of ["x", "y"]) expect(await node.refusal("ADD", { container })).toContain("eth0");

    expect(await node.held()).toEqual({ "net1.x": ["10.60.0.0/26#0"] });
    expect(await node.record()).toMatchObject({ containerID: "x", podIP: ips[0]?.address });
  });

  it("K34: a second interface is refused, and its DEL leaves the first; a pod of a similar name has an endpoint of its own", async () => {
    await node.pod("pod");
    await node.pod("pod-1");
    const first = await node.add();
    expect(await node.refusal("ADD", { ifname: "eth1" })).toMatch(/interface eth0 on network net1.*interface eth1 on network net1/);

    await node.add({ pod: "pod-1", container: "c2", sandbox: await node.sandbox("other") });
    await node.del({ ifname: "eth1" });

    expect(await node.endpoint()).toMatchObject({ endpoint: "eth0", containerID: "c1", ipNetworks: [first.ips[0]?.address] });
    expect(await node.endpoint("pod-1")).toMatchObject({ containerID: "c2", pod: "pod-1" });
    expect(Object.keys(await node.held()).sort()).toEqual(["net1.c1", "net1.c2"]);
    await node.del({ pod: "pod-1", container: "c2", sandbox: await node.sandbox("other") });
    await node.del();
    await node.expectNothingLeft("pod", "pod-1");
  });

  it("twice the same: every ADD of a pod takes an address, and one DEL frees them all", async () => {
    await node.pool("pool6", "fd60::/122");
    await node.pod("pod");
    const conf = { ipam: { type: "calico-ipam", assign_ipv6: "true" } };
    await node.add({ conf });
    const second = await node.add({ conf });

    expect((await node.held())["net1.c1"]).toHaveLength(4);
    expect(await node.podAddresses()).toEqual(second.ips.map(({ address }) => address));
    await node.del({ conf });
    await node.expectNothingLeft("pod");
  });

  it("of a pod that was deleted and made again under its name: the old container's DEL leaves the new pod alone", async () => {
    await node.pod("pod");
    await node.add({ container: "x", sandbox: await node.sandbox("old") });
    await stores.cluster.remove("v1", "pods", "pod", NAMESPACE);
    await node.pod("pod");

    await node.del({ container: "x", sandbox: await node.sandbox("old") });
    expect(await node.record()).toEqual({});
    await node.expectNothingLeft();

    const { ips } = await node.add({ container: "y" });
    await node.del({ container: "x", netns: "" });
    expect(await node.record()).toMatchObject({ containerID: "y", podIP: ips[0]?.address });
  });
});

describe("Sandboxes of a pod on the API server", () => {
  it("whose pod was replaced while the ADD was on its way: nothing is announced on the new pod, and nothing stays", async () => {
    await using proxy = await stores.cluster.proxy();
    await using node = await stores.node(LEGACY, { via: proxy, pools: ["10.60.0.0/26"], pods: ["pod"] });
    proxy.on(
      { method: "PATCH" },
      {
        kind: "before",
        action: async () => {
          await stores.cluster.remove("v1", "pods", "pod", NAMESPACE);
          await node.pod("pod");
        },
      },
    );

    expect(await node.refusal("ADD")).toMatch(/resource does not exist: Pod.test\/pod/);

    expect(await node.annotations()).toEqual({});
    await node.expectNothingLeft("pod");
  });
});

describe("A DEL", () => {
  const node = fresh(() => stores.node(LEGACY));

  it("without any ADD succeeds, with and without the namespace, and writes nothing on the pod", async () => {
    await node.pod("pod");
    await node.del();
    await node.del({ netns: "/run/netns/no-such-sandbox" });
    await node.del({ netns: "" });
    expect(await node.annotations()).toEqual({});
  });

  it("removes the host end and the address when the sandbox is gone already", async () => {
    await node.pool("pool4", "10.60.0.0/26");
    await node.pod("pod");
    await node.add();

    await node.del({ netns: "" });

    await node.expectNothingLeft("pod");
  });

  it("succeeds for a pod that is gone, and for one whose annotations nobody can read", async () => {
    await node.pool("pool4", "10.60.0.0/26");
    await node.pod("pod");
    await node.add();
    const broken = ["allowedSourcePrefixes", "floatingIPs", "hwAddr", "ipAddrs", "ipv4pools", "podIPs"];
    const { podIP = "", containerID = "" } = await node.annotations();
    const annotations = { podIP, containerID, ...Object.fromEntries(broken.map((name) => [name, "nonsense"])) };
    await node.pod("pod", {
      annotations: Object.fromEntries(Object.entries(annotations).map(([name, value]) => [`cni.projectcalico.org/${name}`, value])),
    });
    await node.del();
    await node.expectNothingLeft("pod");

    await node.pod("gone");
    const call = await node.callOf("gone", "c2");
    await node.add(call);
    await stores.cluster.remove("v1", "pods", "gone", NAMESPACE);
    await node.del(call);
    await node.expectNothingLeft();
  });
});
