/**
 * The contexts of Calico's main plugin suites that are about its IPAM plugin (I§8.3), as far as they need no API server: pools come
 * from the network configuration here, from annotations there.
 */
import { prefixesOf } from "../../support/cni-result.ts";
import { dualIpam, localConf, podArgs } from "../../support/conf.ts";
import { fresh } from "../../support/fixtures.ts";
import { type CniRun, type JsonRecord, Node } from "../../support/node.ts";
import { readStore } from "../../support/store.ts";

const SMALL = "10.244.0.0/30";
const LARGE = "10.245.0.0/24";

function pools(listed: readonly string[], cidrs: readonly string[] = listed) {
  return dualIpam("4", { pools: cidrs.map((cidr) => ({ cidr, blockSize: 30 })), ipv4_pools: listed });
}

function resultOf({ json }: CniRun): { readonly addresses: readonly string[]; readonly routes: readonly string[] } {
  const { routes = [] } = json as { readonly routes?: readonly JsonRecord[] };
  return { addresses: prefixesOf(json), routes: routes.map(({ dst }) => String(dst)) };
}

async function fill(node: Node, ipam: object, count: number): Promise<void> {
  for (let index = 0; index < count; index++) {
    const conf = localConf(node, { ipam });
    const run = await node.cni("ADD", { plugin: "calico-ipam", containerId: `filler${index}`, netns: "b", conf });
    expect(run).toMatchObject({ exit: 0 });
  }
}

const node = fresh(Node.create);

describe("A pod on our IPAM plugin", () => {
  it("gets its address from the pool that is listed", async () => {
    const conf = localConf(node, { ipam: pools([LARGE], [SMALL, LARGE]) });
    const run = await node.cni("ADD", { pod: await node.addPod(), conf, args: podArgs("podA") });
    expect(resultOf(run).addresses).toEqual([expect.stringMatching(/^10\.245\.0\.\d+\/32$/)]);
  });

  it("is refused an unknown pool, and its DEL succeeds", async () => {
    const pod = await node.addPod();
    const conf = localConf(node, { ipam: pools(["10.99.0.0/24"], [SMALL]) });
    const run = await node.cni("ADD", { pod, conf, args: podArgs("podA") });
    expect(run).toMatchObject({ exit: 1, json: { msg: expect.stringContaining("(10.99.0.0/24) does not exist") } });
    expect(await node.cni("DEL", { pod, conf, args: podArgs("podA") })).toMatchObject({ exit: 0, stdout: "" });
  });

  it("is refused when its pool is full, and its DEL succeeds", async () => {
    const ipam = pools([SMALL], [SMALL, LARGE]);
    await fill(node, ipam, 4);
    const pod = await node.addPod();
    const conf = localConf(node, { ipam });
    const run = await node.cni("ADD", { pod, conf, args: podArgs("podA") });
    expect(run).toMatchObject({ exit: 1, json: { msg: expect.stringContaining(`No IPs available in pools: [${SMALL}]`) } });
    expect(await node.cni("DEL", { pod, conf, args: podArgs("podA") })).toMatchObject({ exit: 0, stdout: "" });
    await node.expectClean();
  });

  it("gets its address from the second of two pools when the first is full", async () => {
    await fill(node, pools([SMALL], [SMALL, LARGE]), 4);
    const conf = localConf(node, { ipam: pools([SMALL, LARGE]) });
    const run = await node.cni("ADD", { pod: await node.addPod(), conf, args: podArgs("podA") });
    expect(resultOf(run).addresses).toEqual([expect.stringMatching(/^10\.245\./)]);
  });

  it("has the address of its result, with one route to it, in its endpoint and under its handle", async () => {
    const run = await node.cni("ADD", { pod: await node.addPod(), conf: localConf(node), args: podArgs("podA") });
    const { addresses, routes } = resultOf(run);
    expect(addresses.length).toBe(1);
    const bare = addresses.map((address) => address.replace(/\/.*/, ""));
    expect(routes.map((route) => route.replace(/\/.*/, ""))).toEqual(bare);
    const { endpoints, handles, allocated } = await readStore(node);
    expect(endpoints.map(({ ipNetworks }) => ipNetworks)).toEqual([addresses]);
    expect(handles.map(({ id }) => id)).toEqual(["net1.cid1"]);
    expect(allocated).toEqual(bare);
  });

  it("has two addresses and two routes on both families, both in its endpoint", async () => {
    const run = await node.cni("ADD", { pod: await node.addPod(), conf: localConf(node, { ipam: dualIpam("46") }), args: podArgs("podA") });
    const { addresses, routes } = resultOf(run);
    expect([addresses.length, routes.length]).toEqual([2, 2]);
    expect((await readStore(node)).endpoints.map(({ ipNetworks }) => ipNetworks)).toEqual([addresses]);
  });

  it("gets a new address when the same container is added again", async () => {
    const pod = await node.addPod();
    const call = { pod, conf: localConf(node), args: podArgs("podA") };
    const first = resultOf(await node.cni("ADD", call)).addresses;
    await node.podIp(pod, "link", "del", "eth0");
    const second = resultOf(await node.cni("ADD", call)).addresses;
    expect(second).not.toEqual(first);
    expect((await readStore(node)).endpoints.map(({ ipNetworks }) => ipNetworks)).toEqual([second]);
  });

  it("keeps its address when it is added again and the network cannot be built", async () => {
    const pod = await node.addPod();
    const call = { pod, conf: localConf(node), args: podArgs("podA") };
    const [address = ""] = resultOf(await node.cni("ADD", call)).addresses;
    // The first interface is still there.
    const [host] = (await node.leftovers()).links;
    await node.ip("link", "set", String(host), "name", "moved0");
    expect(await node.cni("ADD", call)).toMatchObject({ exit: 1 });
    const { allocated, endpoints } = await readStore(node);
    expect(allocated).toEqual([address.replace(/\/.*/, "")]);
    expect(endpoints.map(({ ipNetworks }) => ipNetworks)).toEqual([[address]]);
  });
});

describe("A plain container on our IPAM plugin", () => {
  it("gets the same result when it is added again, and no other address", async () => {
    const pod = await node.addPod();
    const call = { pod, conf: localConf(node) };
    const first = resultOf(await node.cni("ADD", call)).addresses;
    const second = resultOf(await node.cni("ADD", call)).addresses;
    expect(second).toEqual(first);
    expect((await readStore(node)).allocated.length).toBe(1);
  });
});
