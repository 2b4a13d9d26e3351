import { fresh } from "../../support/fixtures.ts";
import { IpamNode } from "../../support/ipam-node.ts";
import { heldBlock, sampleRequest } from "../../support/samples.ts";
import { ServerNode } from "./server-node.ts";

const CONF = { ipam: { pools: [{ cidr: "10.40.0.0/24" }, { cidr: "fd80:40::/120" }], assign_ipv6: "true" } };
const POD = "IgnoreUnknown=1;K8S_POD_NAME=web-0;K8S_POD_NAMESPACE=shop";
const node = fresh(() => new IpamNode(CONF));

describe("IPAM DEL", () => {
  it("releases every address of the container, and nobody else's, and may be repeated", async () => {
    await node.add({ container: "c1" });
    await node.add({ container: "c1" });
    await node.add({ container: "c2" });
    for (let time = 0; time < 2; time++) {
      await node.del({ container: "c1" });
      expect(Object.keys(await node.allocated())).toEqual(["net1.c2"]);
      expect(await node.handles()).toEqual(["net1.c2"]);
    }
  });

  it("succeeds for a container that was never added, without a pool in the configuration", async () => {
    await using bare = new IpamNode({});
    await bare.del({ container: "never", args: "IP=10.40.0.9" });
    expect(await bare.datastore.blocks.list()).toEqual([]);
  });

  it("ignores the address that is asked for", async () => {
    await node.add({ container: "c2", args: "IP=10.40.0.9" });
    await node.del({ container: "c1", args: "IP=10.40.0.9" });
    expect(await node.allocated()).toEqual({ "net1.c2": ["10.40.0.9"] });
  });

  it("leaves the same container of another network alone", async () => {
    await node.add({ conf: { name: "net2" } });
    await node.del();
    expect(await node.handles()).toEqual(["net2.c1"]);
  });

  it.each([
    ["the container id", "", "c1"],
    ["namespace and name of the pod", POD, "shop.web-0"],
  ])("releases what stands under the legacy handle, %s", async (_what, args, legacy) => {
    await node.add();
    const block = heldBlock("10.40.0.0/26", [{ handleId: legacy }]);
    await node.datastore.blocks.create(block.cidr, block);
    await node.datastore.handles.create(legacy, { id: legacy, blocks: { [block.cidr]: 1 } });
    await node.del({ args });
    expect(await node.allocated()).toEqual({});
    expect(await node.handles()).toEqual([]);
  });

  it.each([
    ["a container of another pod", "net1.victim", { namespace: "prod", pod: "db" }],
    ["a plain container", "net1.victim", { node: "node-a" }],
    ["a virtual machine", "net1.vmi.shop.vm", { namespace: "net1", pod: "vmi.shop.vm", "vmi-name": "vm" }],
    ["a tunnel", "ipip-tunnel-addr-ip-10-0-1-5.ec2.internal", { node: "node-a", type: "ipipTunnelAddress" }],
  ])("M1: leaves what %s holds, whose handle is a legacy one of this pod by its text", async (_whose, handle, attributes) => {
    await node.add();
    await node.ipam.allocator.autoAssign(sampleRequest("node-a", handle, { attributes }));
    const before = await node.allocated();
    const [namespace, ...rest] = handle.split(".");
    const args = `IgnoreUnknown=1;K8S_POD_NAMESPACE=${namespace};K8S_POD_NAME=${rest.join(".")}`;
    await node.del({ container: "attacker", args });
    expect(await node.allocated()).toEqual(before);
    expect(await node.handles()).toContain(handle);
  });

  it("M1: leaves what a pod holds whose handle has the text of a plain container's id", async () => {
    await node.add({ container: "db", args: POD, conf: { name: "prod" } });
    await node.del({ container: "prod.db" });
    expect(Object.keys(await node.allocated())).toEqual(["prod.db"]);
  });

  it("M1: releases what this very pod holds under its legacy handle, with its attributes", async () => {
    await node.add();
    const attributes = { node: "node-a", namespace: "shop", pod: "web-0" };
    await node.ipam.allocator.autoAssign(sampleRequest("node-a", "shop.web-0", { attributes }));
    await node.del({ args: POD });
    expect(await node.handles()).toEqual([]);
    expect(await node.allocated()).toEqual({});
  });

  it("releases what pools hold that are disabled or gone by now", async () => {
    await node.add();
    for (const { value, revision } of await node.datastore.pools.list()) await node.datastore.pools.delete(value.name, revision);
    await node.del();
    expect(await node.allocated()).toEqual({});
  });

  it("tries the legacy handle even when the first one fails, and reports the first error", async () => {
    const tried: string[] = [];
    node.ipam.allocator.releaseByHandle = async (handle) => {
      tried.push(handle);
      throw new Error(`no ${handle}`);
    };
    await expect(node.del({ args: POD })).rejects.toThrow("no net1.c1");
    expect(tried).toEqual(["net1.c1", "shop.web-0"]);
  });

  it("frees its own where ids that differ in case share a handle, and leaves the others traceable (recording handle-case-collision)", async () => {
    using server = await ServerNode.create();
    const counts = async () => (await server.cluster.handles())["net1.ABC"];
    await server.add({ container: "ABC" });
    await server.add({ container: "abc" }).then(() => server.add({ container: "abc" }));
    await server.del({ container: "abc" });
    expect(Object.values((await counts()) ?? {})).toEqual([1]);
    await server.del({ container: "abc" });
    expect(Object.values((await counts()) ?? {})).toEqual([1]);
    await server.del({ container: "ABC" });
    expect(await counts()).toBeUndefined();
    expect((await server.cluster.blocks())[0]?.attributes).toEqual([]);
  });

  it("refuses arguments that no ADD could have had", async () => {
    await expect(node.del({ args: "a=b=c" })).rejects.toThrow('ARGS: invalid pair "a=b=c"');
    await expect(node.del({ container: "c1-" })).rejects.toThrow("error with field containerID = 'c1-' (field must not end with a '-')");
  });
});
