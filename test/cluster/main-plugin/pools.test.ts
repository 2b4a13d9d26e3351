/** Which pool a pod's address comes from: rows K15 to K21, K43 and K44 of C§11.2, wherever Calico's objects are. */
import { fresh, shared } from "../../support/fixtures.ts";
import { NAMESPACE } from "../../support/kubernetes/api-server-node.ts";
import { ALL_STORES, BOTH_STORES, PodStores } from "../../support/kubernetes/pod-stores.ts";

const IPV4_POOLS = "cni.projectcalico.org/ipv4pools";
const IPV6_POOLS = "cni.projectcalico.org/ipv6pools";

const stores = shared(PodStores.start);

async function annotateNamespace(annotations: Readonly<Record<string, string>>): Promise<void> {
  await stores.cluster.createNamespace(NAMESPACE, annotations);
}

describe.each(ALL_STORES)("Pool annotations, %s", (store) => {
  it("K19: of the pod beat those of its namespace", async () => {
    await using node = await stores.node(store);
    await node.pool("pool1", "50.60.0.0/28", { blockSize: 28 });
    await node.pool("pool2", "60.70.0.0/28", { blockSize: 28 });
    await annotateNamespace({ [IPV4_POOLS]: '["bogus"]' });
    await node.pod("pod", { annotations: { [IPV4_POOLS]: '["60.70.0.0/28"]' } });

    const { ips } = await node.add();

    expect(ips[0]?.address).toMatch(/^60\.70\.0\.\d+\/32$/);
  });
});

describe.each(BOTH_STORES)("Annotations that list pools, %s", (store) => {
  const node = fresh(() => stores.node(store));

  it("K15: of the namespace choose the pool", async () => {
    await node.pool("pool1", "50.60.0.0/28", { blockSize: 28 });
    await node.pool("pool2", "60.70.0.0/28", { blockSize: 28 });
    await annotateNamespace({ [IPV4_POOLS]: '["50.60.0.0/28"]' });
    await node.pod("pod");

    expect((await node.add()).ips[0]?.address).toMatch(/^50\.60\.0\.\d+\/32$/);
  });

  it("K16: that name no pool fail the ADD, and DEL runs", async () => {
    await node.pool("pool1", "50.60.0.0/28", { blockSize: 28 });
    await annotateNamespace({ [IPV4_POOLS]: '["100.0.0.0/16"]' });
    await node.pod("pod");

    expect(await node.refusal("ADD")).toContain("100.0.0.0/16");
    await node.del();
    await node.expectNothingLeft("pod");
  });

  it("K17, K18: a full pool fails the ADD, and is passed over where a second one is listed", async () => {
    await node.pool("pool1", "50.60.0.0/30", { blockSize: 30 });
    await node.pool("pool2", "60.70.0.0/30", { blockSize: 30 });
    await annotateNamespace({ [IPV4_POOLS]: '["50.60.0.0/30"]' });
    for (const name of ["a", "b", "c", "d"]) {
      await node.pod(name);
      expect((await node.add(await node.callOf(name, name))).ips[0]?.address).toMatch(/^50\.60\./);
    }
    await node.pod("pod");
    expect(await node.refusal("ADD")).toContain("50.60.0.0/30");
    expect(Object.keys(await node.held())).toHaveLength(4);

    await annotateNamespace({ [IPV4_POOLS]: '["50.60.0.0/30","60.70.0.0/30"]' });

    expect((await node.add()).ips[0]?.address).toMatch(/^60\.70\.0\.\d\/32$/);
  });

  it.each([
    ["K20: by CIDR", "172.16.0.0/16"],
    ["K21: by name", "pool2"],
  ])("%s choose the pod's pool", async (_, entry) => {
    await node.pool("pool1", "50.60.0.0/28", { blockSize: 28 });
    await node.pool("pool2", "172.16.0.0/16");
    await node.pod("pod", { annotations: { [IPV4_POOLS]: JSON.stringify([entry]) } });

    expect((await node.add()).ips[0]?.address).toMatch(/^172\.16\..*\/32$/);
  });
});

describe.each(BOTH_STORES)("The result of an ADD, %s", (store) => {
  it("K43: lists both ends of the link, and the address on the second", async () => {
    await using node = await stores.node(store);
    await node.pool("pool1", "50.60.0.0/28", { blockSize: 28 });
    await node.pod("pod", { annotations: { [IPV4_POOLS]: '["50.60.0.0/28"]' } });
    const sandbox = await node.sandbox();

    const { ips, interfaces, routes } = await node.add();

    expect(interfaces).toHaveLength(2);
    expect(ips).toEqual([{ address: expect.stringMatching(/^50\.60\.0\.\d+\/32$/), interface: 1 }]);
    expect(interfaces[1]).toMatchObject({
      name: "eth0",
      mac: expect.stringMatching(/^([0-9a-f]{2}:){5}[0-9a-f]{2}$/),
      sandbox: sandbox.netnsPath,
    });
    expect(routes).toEqual([{ dst: ips[0]?.address.replace("/32", "/28") }]);
  });

  it("K44: has both families, IPv4 first, with a route each", async () => {
    await using node = await stores.node(store);
    await node.pool("pool4", "50.60.0.0/28", { blockSize: 28 });
    await node.pool("pool6", "fd80:24e2:f998:72d6::/121", { blockSize: 122 });
    await node.pod("pod", { annotations: { [IPV4_POOLS]: '["50.60.0.0/28"]', [IPV6_POOLS]: '["fd80:24e2:f998:72d6::/121"]' } });

    const { ips, interfaces, routes } = await node.add({ conf: { ipam: { type: "calico-ipam", assign_ipv6: "true" } } });

    const addresses = ips.map(({ address }) => address);
    expect(addresses).toEqual([expect.stringMatching(/^50\.60\.0\.\d+\/32$/), expect.stringMatching(/^fd80:24e2:f998:72d6::.*\/128$/)]);
    expect(interfaces).toHaveLength(2);
    expect(routes?.map(({ dst }) => dst.replace(/\/.*/, ""))).toEqual(addresses.map((address) => address.replace(/\/.*/, "")));
    expect(await node.podAddresses()).toEqual(addresses);
    expect(await node.record()).toMatchObject({ podIP: addresses[0], podIPs: addresses.join(",") });
  });
});
