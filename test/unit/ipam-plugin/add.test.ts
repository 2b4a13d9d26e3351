import { ipamResultOf } from "../../../ipam-plugin/ipam-plugin.ts";
import { fresh } from "../../support/fixtures.ts";
import { IpamNode } from "../../support/ipam-node.ts";
import { samplePool } from "../../support/samples.ts";
import { remove } from "../../support/stored.ts";

const V4 = { cidr: "10.40.0.0/24" };
const V6 = { cidr: "fd80:40::/120" };

const node = fresh(() => new IpamNode({ ipam: { pools: [V4] } }));

describe("IPAM ADD without a wish", () => {
  it("gives an IPv4 address with its block's prefix length, and one route with the identical text", async () => {
    const result = ipamResultOf(await node.add());
    expect(result).toEqual({
      interfaces: [],
      ips: [{ address: expect.stringMatching(/^10\.40\.0\.\d+\/26$/) }],
      routes: [{ dst: result.ips[0]?.address }],
      dns: {},
    });
  });

  it("gives both families, IPv4 first, each with a route", async () => {
    await using node = new IpamNode({ ipam: { pools: [V6, V4], assign_ipv6: "true" } });
    const result = ipamResultOf(await node.add());
    expect(result.ips.map(({ address }) => address)).toEqual([
      expect.stringMatching(/^10\.40\.0\.\d+\/26$/),
      expect.stringMatching(/^fd80:40::[0-9a-f]*\/122$/),
    ]);
    expect(result.routes.map(({ dst }) => dst)).toEqual(result.ips.map(({ address }) => address));
  });

  it("gives IPv6 alone", async () => {
    await using node = new IpamNode({ ipam: { pools: [V6], assign_ipv4: "false", assign_ipv6: "true" } });
    expect(await node.addresses()).toEqual([expect.stringMatching(/^fd80:40::[0-9a-f]*\/122$/)]);
  });

  it("gives nothing, and takes nothing, when both families are off (recording family-none)", async () => {
    await using node = new IpamNode({ ipam: { pools: [V4], assign_ipv4: "false" } });
    expect(ipamResultOf(await node.add())).toEqual({ interfaces: [], ips: [], routes: [], dns: {} });
    expect(await node.handles()).toEqual([]);
  });

  it("records the handle and the attributes that controllers look for", async () => {
    await node.add({ container: "c1" });
    await node.add({ container: "c2", args: "IgnoreUnknown=1;K8S_POD_NAME=web-0;K8S_POD_NAMESPACE=shop" });
    const [block] = await node.datastore.blocks.list();
    const timestamp = expect.stringMatching(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,9})? \+0000 UTC$/);
    expect(block?.value.attributes).toEqual([
      { handleId: "net1.c1", activeOwner: { node: "node-a", timestamp } },
      { handleId: "net1.c2", activeOwner: { node: "node-a", timestamp, pod: "web-0", namespace: "shop" } },
    ]);
    expect(await node.handles()).toEqual(["net1.c1", "net1.c2"]);
  });

  it("gives a second address under the same handle when it is repeated", async () => {
    const first = await node.addresses();
    const second = await node.addresses();
    expect(second).not.toEqual(first);
    expect((await node.allocated())["net1.c1"]).toHaveLength(2);
  });

  it("takes the pools of the configuration that it names, by name or CIDR", async () => {
    await using node = new IpamNode({ ipam: { pools: [V4, { cidr: "10.41.0.0/24", name: "second" }] } });
    expect(await node.addresses({ ipam: { ipv4_pools: ["second"] } })).toEqual([expect.stringMatching(/^10\.41\./)]);
    expect(await node.addresses({ ipam: { ipv4_pools: ["10.40.0.0/24"] } })).toEqual([expect.stringMatching(/^10\.40\./)]);
    await expect(node.add({ ipam: { ipv4_pools: ["10.77.0.0/24"] } })).rejects.toThrow(
      "the given pool (10.77.0.0/24) does not exist, or is not enabled",
    );
    await expect(node.add({ ipam: { ipv6_pools: ["nope"] } })).rejects.toThrow('error parsing pool "nope": invalid CIDR address: nope');
  });

  it("keeps to one block when the configuration wants a single network", async () => {
    await using node = new IpamNode({ windows_use_single_network: true, ipam: { pools: [{ cidr: "10.40.0.0/29", blockSize: 30 }] } });
    for (const container of ["c1", "c2", "c3", "c4"]) await node.add({ container });
    await expect(node.add({ container: "c5" })).rejects.toThrow("cannot allocate new block due to per host block limit");
  });
});

describe("IPAM ADD with a wish", () => {
  it.each(["", ";K8S_POD_NAME=web-0;K8S_POD_NAMESPACE=shop"])(
    "gives exactly the address of IP=, as /32 (arguments %j behind it)",
    async (rest) => {
      const result = ipamResultOf(await node.add({ args: `IgnoreUnknown=1;IP=10.40.0.123${rest}` }));
      expect(result.ips).toEqual([{ address: "10.40.0.123/32" }]);
      expect(result.routes).toEqual([{ dst: "10.40.0.123/32" }]);
      expect(await node.allocated()).toEqual({ "net1.c1": ["10.40.0.123"] });
    },
  );

  it("gives an IPv6 address as /128, and no other family, whatever families are on", async () => {
    await using node = new IpamNode({ ipam: { pools: [V4, V6], assign_ipv6: "true" } });
    expect(await node.addresses({ args: "IP=fd80:40::7" })).toEqual(["fd80:40::7/128"]);
  });

  it("gives the addresses of the ips capability, IPv4 first, and prefers them to IP=", async () => {
    await using node = new IpamNode({ ipam: { pools: [V4, V6] }, runtimeConfig: { ips: ["fd80:40::7/64", "10.40.0.9"] } });
    expect(await node.addresses({ args: "IP=10.40.0.77" })).toEqual(["10.40.0.9/32", "fd80:40::7/128"]);
  });

  it("refuses a taken address, one outside the pools, and one that is none, and keeps nothing", async () => {
    await node.add({ container: "other", args: "IP=10.40.0.9" });
    await expect(node.add({ args: "IP=10.40.0.9" })).rejects.toThrow("Address already assigned in block");
    await expect(node.add({ args: "IP=10.99.0.9" })).rejects.toThrow("The provided IP address is not in a configured pool");
    await expect(node.add({ args: "IP=10.40.0.09" })).rejects.toThrow(
      'ARGS: error parsing value of pair "IP=10.40.0.09": invalid IP address: 10.40.0.09',
    );
    expect(await node.handles()).toEqual(["net1.other"]);
  });

  it("keeps neither of two addresses when one cannot be had", async () => {
    await using node = new IpamNode({ ipam: { pools: [V4, V6] } });
    await node.add({ container: "other", args: "IP=fd80:40::7" });
    await expect(node.add({ conf: { runtimeConfig: { ips: ["10.40.0.9", "fd80:40::7"] } } })).rejects.toThrow("already assigned");
    expect(await node.allocated()).toEqual({ "net1.other": ["fd80:40::7"] });
    expect(await node.handles()).toEqual(["net1.other"]);
  });

  it("takes an automatic address when IP= is empty", async () => {
    expect(await node.addresses({ args: "IP=" })).toEqual([expect.stringMatching(/\/26$/)]);
  });
});

describe("IPAM ADD that fails", () => {
  it("says how many addresses it got of how many, and why", async () => {
    await using node = new IpamNode({ ipam: { pools: [{ cidr: "10.40.0.0/30", blockSize: 30 }] } });
    for (const container of ["c1", "c2", "c3", "c4"]) await node.add({ container });
    await expect(node.add({ container: "c5" })).rejects.toMatchObject({
      word: "addresses-exhausted",
      message: "failed to request IPv4 addresses: Assigned 0 out of 1 requested IPv4 addresses; No IPs available in pools: [10.40.0.0/30]",
    });
    expect(await node.handles()).toHaveLength(4);
  });

  it("gives the IPv4 address back when there is no IPv6 one, and keeps what an earlier ADD got", async () => {
    await using node = new IpamNode({ ipam: { pools: [V4, { cidr: "fd80:40::/128", blockSize: 128 }], assign_ipv6: "true" } });
    const [first = "", second = ""] = await node.addresses();
    const held = { "net1.c1": [first.split("/")[0], second.split("/")[0]] };
    await expect(node.add()).rejects.toThrow("failed to request IPv6 addresses: Assigned 0 out of 1");
    await expect(node.add({ container: "c2" })).rejects.toThrow("failed to request IPv6 addresses: Assigned 0 out of 1");
    expect(await node.allocated()).toEqual(held);
    expect(await node.handles()).toEqual(["net1.c1"]);
  });

  it("I6: gives the address of one family back when the other has no pool at all (recording dual-no-v6-pool)", async () => {
    await using node = new IpamNode({ ipam: { pools: [V4], assign_ipv6: "true" } });
    await expect(node.add()).rejects.toThrow("cannot find a qualified ippool");
    expect(await node.allocated()).toEqual({});
    expect(await node.handles()).toEqual([]);
  });

  it("names the key to set when there is no pool at all", async () => {
    await using node = new IpamNode({});
    await expect(node.add()).rejects.toMatchObject({
      word: "pool-missing",
      message: expect.stringMatching(/cannot find a qualified ippool.*ipam\.pools/),
    });
  });

  it("refuses policy.type k8s, which the local datastore cannot serve", async () => {
    await using node = new IpamNode({ policy: { type: "k8s" }, ipam: { pools: [V4] } });
    await expect(node.add()).rejects.toMatchObject({ word: "netconf-value" });
    await node.del();
  });

  it.each([
    ["x", 'ARGS: invalid pair "x"'],
    ["a=b", 'ARGS: unknown args ["a=b"]'],
    ["K8S_POD_NAME=web-0;K8S_POD_NAMESPACE=shop", 'ARGS: unknown args ["K8S_POD_NAME=web-0" "K8S_POD_NAMESPACE=shop"]'],
    ["IgnoreUnknown=1;K8S_POD_NAME=-web;K8S_POD_NAMESPACE=shop", "error with field pod = '-web' (field must not begin with a '-')"],
  ])("refuses the arguments %j in Calico's words", async (args, message) => {
    await expect(node.add({ args })).rejects.toThrow(message);
    expect(await node.handles()).toEqual([]);
  });

  it("gives back, on its caller's request, exactly what it took", async () => {
    const [kept = ""] = await node.addresses();
    const automatic = await node.add();
    const requested = await node.add({ args: "IP=10.40.0.9" });
    await automatic.giveBack();
    await requested.giveBack();
    expect(await node.allocated()).toEqual({ "net1.c1": [kept.split("/")[0]] });
    // Once more, when somebody else may have the address since.
    await node.add({ container: "c2", args: "IP=10.40.0.9" });
    await requested.giveBack();
    expect((await node.allocated())["net1.c2"]).toEqual(["10.40.0.9"]);
  });
});

describe("the selectors of pools in the local store", () => {
  it("see a node and a namespace without labels when nobody has stored any", async () => {
    await node.datastore.pools.create("a", samplePool("a", "10.50.0.0/24", { nodeSelector: "zone == 'x'" }));
    await node.datastore.pools.create("b", samplePool("b", "10.51.0.0/24", { namespaceSelector: "team == 'shop'" }));
    expect(await node.addresses()).toEqual([expect.stringMatching(/^10\.40\./)]);
    await node.datastore.nodes.create("node-a", { name: "node-a", labels: { zone: "x" } });
    await node.datastore.namespaces.create("shop", { name: "shop", labels: { team: "shop" } });
    await remove(node.datastore.pools, "10-40-0-0-24");
    const conf = { ipam: {} };
    expect(await node.addresses({ container: "c9", conf, ipam: { pools: [] } })).toEqual([expect.stringMatching(/^10\.50\./)]);
  });
});
