import { PodNode } from "../../support/pod-node.ts";

/** "container interface" of every record, sorted. */
async function records(node: PodNode): Promise<readonly string[]> {
  return (await node.datastore.endpoints.list()).map(({ value }) => `${value.containerID} ${value.endpoint}`).sort();
}

describe("GC", () => {
  it("keeps address and record of a container whose link cannot be removed, and reports that", async () => {
    await using node = PodNode.forContainers();
    await node.add({ container: "stuck" });
    node.failure = { effect: "remove host end", error: new Error("device busy") };

    await expect(node.gc()).rejects.toThrow("device busy");

    expect(await node.handles()).toEqual({ "net1.stuck": 1 });
    expect(await records(node)).toEqual(["stuck eth0"]);
    node.failure = undefined;
    await node.gc();
    expect(await node.handles()).toEqual({});
    expect(await records(node)).toEqual([]);
  });

  it("tells the interfaces of one container apart", async () => {
    await using node = PodNode.forContainers();
    await node.add({ container: "one" });
    await node.add({ container: "two", interfaceName: "net1" });

    await node.gc(["one", "eth0"], ["two", "eth0"]);

    expect([...node.links.values()]).toEqual(["tortie:net1/one/eth0"]);
    expect(await records(node)).toEqual(["one eth0"]);
  });

  it("leaves the records of other nodes and networks alone", async () => {
    await using node = PodNode.forContainers();
    await node.add({ container: "lost" });
    const [lost] = await node.datastore.endpoints.list();
    if (lost === undefined) throw new Error("there is one");
    for (const change of [
      { name: "far", node: "worker-2", containerID: "far" },
      { name: "foreign", profiles: ["net2"], containerID: "foreign" },
      { name: "shared", profiles: ["net1", "net2"], containerID: "shared" },
    ]) {
      const endpoint = { ...lost.value, ...change };
      await node.datastore.endpoints.create({ namespace: endpoint.namespace, name: endpoint.name }, endpoint);
    }

    await node.gc();

    expect(await records(node)).toEqual(["far eth0", "foreign eth0", "shared eth0"]);
  });
});

describe("CHECK", () => {
  it("names the container that the record says instead", async () => {
    await using node = await PodNode.create();
    const prevResult = JSON.parse(JSON.stringify(await node.add()));
    node.annotate({ "cni.projectcalico.org/containerID": "c2" });

    await expect(node.check({ conf: { prevResult } })).rejects.toMatchObject({
      word: "check-failed",
      message: expect.stringContaining("endpoint record: wanted container c1, found container c2"),
    });
  });
});
