/**
 * What pods ask for by annotations: rows K22 to K29, K41 and K42 of C§11.2, and what the recordings show beside them, wherever
 * Calico's objects are.
 */
import { fresh, shared } from "../../support/fixtures.ts";
import type { ApiServerNode } from "../../support/kubernetes/api-server-node.ts";
import { ALL_STORES, BOTH_STORES, PodStores } from "../../support/kubernetes/pod-stores.ts";

const PREFIX = "cni.projectcalico.org/";
const FLOATING = { feature_control: { floating_ips: true } };
const WITHOUT_IPAM = { feature_control: { ip_addrs_no_ipam: true } };

const stores = shared(PodStores.start);

async function podWith(node: ApiServerNode, annotations: Readonly<Record<string, unknown>>, name = "pod"): Promise<void> {
  const texts = Object.entries(annotations).map(([key, value]) => [
    PREFIX + key,
    typeof value === "string" ? value : JSON.stringify(value),
  ]);
  await node.pod(name, { annotations: Object.fromEntries(texts) });
}

describe.each(ALL_STORES)("Addresses that a pod asks for, %s", (store) => {
  it("K28: are the pod's, whatever families the configuration has on", async () => {
    await using node = await stores.node(store, { pools: ["20.0.0.0/24"] });
    await podWith(node, { ipAddrs: ["20.0.0.111"] });
    const conf = { ipam: { type: "calico-ipam", assign_ipv6: "true" } };

    const result = await node.add({ conf });

    expect(result.ips).toEqual([{ address: "20.0.0.111/32", interface: 1 }]);
    expect(result.routes).toBeUndefined();
    expect(await node.podAddresses()).toEqual(["20.0.0.111/32"]);
    expect(await node.record()).toMatchObject({ podIP: "20.0.0.111/32", podIPs: "20.0.0.111/32", containerID: "c1" });
    expect(await node.endpoint()).toMatchObject({ ipNetworks: ["20.0.0.111/32"], profiles: ["kns.test", "ksa.test.default"] });
    // Calico programs no host route here (C§12.2).
    expect(await node.hostRoutes()).toEqual(["20.0.0.111"]);
    expect(await node.held()).toEqual({ "net1.c1": ["20.0.0.64/26#47"] });

    await node.del({ conf });
    await node.expectNothingLeft("pod");
  });

  it("K29: are of both families, with floating addresses in the order of the annotation", async () => {
    await using node = await stores.node(store);
    await node.pool("pool4", "50.60.0.0/28", { blockSize: 28 });
    await node.pool("pool6", "fd80:24e2:f998:72d6::/121");
    await podWith(node, {
      ipv4pools: ["50.60.0.0/28"],
      ipv6pools: ["fd80:24e2:f998:72d6::/121"],
      floatingIPs: ["1.1.1.1", "2001:647f::21"],
    });

    const result = await node.add({ conf: { ...FLOATING, ipam: { type: "calico-ipam", assign_ipv6: "true" } } });

    const [four = "", six = ""] = result.ips.map(({ address }) => address);
    expect([four, six]).toEqual([expect.stringMatching(/^50\.60\.0\..*\/32$/), expect.stringMatching(/^fd80:.*\/128$/)]);
    expect(result.routes).toHaveLength(2);
    expect(await node.endpoint()).toMatchObject({
      ipNetworks: [four, six],
      ipNATs: [
        { internalIP: four.replace("/32", ""), externalIP: "1.1.1.1" },
        { internalIP: six.replace("/128", ""), externalIP: "2001:647f::21" },
      ],
    });
    expect(await node.record()).toMatchObject({ podIP: four, podIPs: `${four},${six}` });
    expect((await node.hostRoutes()).sort()).toEqual([four.replace("/32", ""), six.replace("/128", "")].sort());
  });
});

describe.each(BOTH_STORES)("Addresses and whose they are, %s", (store) => {
  const node = fresh(() => stores.node(store, { pools: ["10.60.0.0/26"] }));

  it("keep the annotation's order, and each has its host route", async () => {
    await node.pool("pool6", "fd60::/122");
    await podWith(node, { ipAddrs: ["fd60::9", "10.60.0.9"] });

    const { ips } = await node.add();

    expect(ips.map(({ address }) => address)).toEqual(["fd60::9/128", "10.60.0.9/32"]);
    expect(await node.record()).toMatchObject({ podIP: "fd60::9/128", podIPs: "fd60::9/128,10.60.0.9/32" });
    expect((await node.hostRoutes()).sort()).toEqual(["10.60.0.9", "fd60::9"]);
    expect(await node.held()).toEqual({ "net1.c1": ["10.60.0.0/26#9", "fd60::/122#9"] });
  });

  it("are all given back when one of them cannot be had", async () => {
    await podWith(node, { ipAddrs: ["10.60.0.9", "fd99::1"] });

    expect(await node.refusal("ADD")).toContain("The provided IP address is not in a configured pool");
    await node.expectNothingLeft("pod");
  });

  it("beat an IP= of the runtime, and its ips capability", async () => {
    await podWith(node, { ipAddrs: ["10.60.0.9"] });

    const { ips } = await node.add({ args: ";IP=10.60.0.10", conf: { runtimeConfig: { ips: ["10.60.0.11/26"] } } });

    expect(ips.map(({ address }) => address)).toEqual(["10.60.0.9/32"]);
  });

  it("stay with the container when its ADD is repeated, even if that fails", async () => {
    await podWith(node, { ipAddrs: ["10.60.0.9"] });
    await node.add();

    expect((await node.add()).ips[0]?.address).toBe("10.60.0.9/32");
    expect(await node.held()).toEqual({ "net1.c1": ["10.60.0.0/26#9"] });

    await node.refusal("ADD", { conf: { mtu: 70_000 } });
    expect(await node.held()).toEqual({ "net1.c1": ["10.60.0.0/26#9"] });
    await node.del();
    await node.expectNothingLeft("pod");
  });

  it("go over to the pod's new sandbox, and to no other pod", async () => {
    await podWith(node, { ipAddrs: ["10.60.0.9"] });
    await podWith(node, { ipAddrs: ["10.60.0.9"] }, "rival");
    await node.add({ container: "old" });

    expect(await node.refusal("ADD", await node.callOf("rival", "r"))).toContain("already");
    await node.add({ container: "new", sandbox: await node.sandbox("new") });

    expect(await node.held()).toEqual({ "net1.new": ["10.60.0.0/26#9"] });
    await node.del({ container: "old" });
    expect(await node.held()).toEqual({ "net1.new": ["10.60.0.0/26#9"] });
    expect(await node.hostRoutes()).toEqual(["10.60.0.9"]);
    expect(await node.record()).toMatchObject({ podIP: "10.60.0.9/32", containerID: "new" });
  });

  it("are not taken from another pod whose record this one pretends to have", async () => {
    await podWith(node, { ipAddrs: ["10.60.0.9"] });
    await node.add();
    await podWith(node, { ipAddrs: ["10.60.0.9"], containerID: "c1", podIPs: "10.60.0.9/32" }, "forger");

    expect(await node.refusal("ADD", await node.callOf("forger", "f"))).toContain("already");

    expect(await node.held()).toEqual({ "net1.c1": ["10.60.0.0/26#9"] });
    expect(await node.hostRoutes()).toEqual(["10.60.0.9"]);
  });

  it("K25: past IPAM are taken as they are", async () => {
    await podWith(node, { ipAddrsNoIpam: ["10.0.0.1", "fd99::1"] });
    const sandbox = await node.sandbox();

    const { ips } = await node.add({ conf: WITHOUT_IPAM });

    expect(ips.map(({ address }) => address)).toEqual(["10.0.0.1/32", "fd99::1/128"]);
    expect(await node.podAddresses()).toEqual(["10.0.0.1/32", "fd99::1/128"]);
    expect(await node.node.sysctl("net/ipv4/ip_forward", sandbox)).toBe("0");
    expect((await node.hostRoutes()).sort()).toEqual(["10.0.0.1", "fd99::1"]);
    expect(await node.held()).toEqual({});
    await node.del({ conf: WITHOUT_IPAM });
    await node.expectNothingLeft("pod");
  });

  it.each([
    ["K26: past IPAM where that is off", { ipAddrsNoIpam: ["10.0.0.1"] }, {}, "requested feature is not enabled: ip_addrs_no_ipam"],
    [
      "K27: past IPAM, two of a family",
      { ipAddrsNoIpam: ["10.0.0.1", "10.0.0.2"] },
      WITHOUT_IPAM,
      "cannot have more than one IPv4 address",
    ],
    ["of both kinds", { ipAddrs: ["10.0.0.1"], ipAddrsNoIpam: ["10.0.0.1"] }, WITHOUT_IPAM, "can't have both annotations"],
    ["K24: floating, where that is off", { floatingIPs: ["1.1.1.1"] }, {}, "requested feature is not enabled: floating_ips"],
    ["floating, of a family that the pod lacks", { floatingIPs: ["2001:647f::21"] }, FLOATING, "2001:647f::21"],
    ["floating, and none at all", { floatingIPs: ["nonsense"] }, FLOATING, "nonsense"],
    ["K42: hardware, and none at all", { hwAddr: "ca:fe:ca:fe" }, {}, "failed to parse MAC address ca:fe:ca:fe"],
    ["sources that are no CIDRs", { allowedSourcePrefixes: [""] }, {}, "allowedSourcePrefixes"],
  ])("%s: fail the ADD before anything is taken", async (_, annotations, conf, message) => {
    await podWith(node, annotations);
    const mark = await stores.cluster.mark();

    expect(await node.refusal("ADD", { conf })).toContain(message);

    const requests = await stores.cluster.requests(mark);
    expect(requests.filter(({ verb }) => verb !== "get")).toEqual([]);
    expect(requests.length).toBeLessThanOrEqual(3);
    await node.expectNothingLeft("pod");
    await node.del({ conf });
  });
});

describe.each(BOTH_STORES)("Other annotations of a pod, %s", (store) => {
  const node = fresh(() => stores.node(store, { pools: ["10.60.0.0/26"] }));

  it("K22: allowed source prefixes are shown to readers of endpoints, without host bits", async () => {
    await podWith(node, { allowedSourcePrefixes: ["1.1.1.7/24", "8.8.8.8/32"] });
    await node.add();

    expect((await node.endpoint())?.allowSpoofedSourcePrefixes).toEqual(["1.1.1.0/24", "8.8.8.8/32"]);
  });

  it("K23: a floating address is translated to the pod's own, also after a second ADD", async () => {
    await podWith(node, { floatingIPs: ["1.1.1.1"] });
    await node.add({ conf: FLOATING });
    const second = await node.add({ conf: FLOATING, container: "c2" });

    const internalIP = second.ips[0]?.address.replace("/32", "");
    expect((await node.endpoint())?.ipNATs).toEqual([{ internalIP, externalIP: "1.1.1.1" }]);
  });

  it("K41: a hardware address is that of the pod's end", async () => {
    await podWith(node, { hwAddr: "CA-FE-CA-FE-CA-FE" });

    const { interfaces } = await node.add();

    expect(interfaces[1]).toMatchObject({ mac: "ca:fe:ca:fe:ca:fe" });
    expect(await node.node.podIp(await node.sandbox(), "-j", "link", "show", "eth0")).toMatchObject([{ address: "ca:fe:ca:fe:ca:fe" }]);
  });
});
