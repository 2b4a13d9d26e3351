/** The IPAM plugin as a process of its own, which is what other main plugins call, and what ours does where it is told to. */
import { shared } from "../../support/fixtures.ts";
import { ApiServerNode } from "../../support/kubernetes/api-server-node.ts";
import { LEGACY, startCluster, V3 } from "../../support/kubernetes/test-cluster.ts";

const PREFIX = "cni.projectcalico.org/";

const cluster = shared(startCluster);

describe.each([LEGACY, V3] as const)("An executed IPAM plugin, %s", (group) => {
  it("gives and takes what the one in the process would", async () => {
    await using node = await ApiServerNode.create(cluster, { group, pools: ["10.60.0.0/26", "fd60::/122"] });
    await node.pod("pod", { annotations: { [`${PREFIX}ipFamilies`]: '["IPv4","IPv6"]' } });
    const conf = { ipam: { type: "calico-ipam", in_process: false } };

    const { ips, routes } = await node.add({ conf });

    const addresses = ips.map(({ address }) => address);
    expect(addresses).toEqual(["10.60.0.0/32", "fd60::/128"]);
    expect(routes).toEqual([{ dst: "10.60.0.0/26" }, { dst: "fd60::/122" }]);
    expect(await node.held()).toEqual({ "net1.c1": ["10.60.0.0/26#0", "fd60::/122#0"] });
    expect(await node.annotations()).toMatchObject({ podIPs: addresses.join(",") });
    await node.del({ conf });
    await node.expectNothingLeft("pod");
  });
});

describe("An executed IPAM plugin", () => {
  it("is asked for each address of the pod's annotation", async () => {
    await using node = await ApiServerNode.create(cluster, { pools: ["10.60.0.0/26", "fd60::/122"] });
    await node.pod("pod", { annotations: { [`${PREFIX}ipAddrs`]: '["fd60::9","10.60.0.9"]' } });
    const conf = { ipam: { type: "calico-ipam", in_process: false }, runtimeConfig: { ips: ["10.60.0.11/26"] } };

    const { ips } = await node.add({ conf });

    expect(ips.map(({ address }) => address)).toEqual(["fd60::9/128", "10.60.0.9/32"]);
    expect((await node.hostRoutes()).sort()).toEqual(["10.60.0.9", "fd60::9"]);
    await node.del({ conf });
    await node.expectNothingLeft("pod");
  });

  it("gives back what it gave when the ADD fails afterwards", async () => {
    await using node = await ApiServerNode.create(cluster, { pools: ["10.60.0.0/26"], pods: ["pod"] });

    await node.refusal("ADD", { conf: { ipam: { type: "calico-ipam", in_process: false }, mtu: 70_000 } });

    await node.expectNothingLeft("pod");
  });
});
