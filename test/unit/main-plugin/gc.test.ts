import { DatastoreError } from "../../../lib/datastore/errors.ts";
import { settled } from "../../support/fake-clock.ts";
import { fresh } from "../../support/fixtures.ts";
import { PodNode } from "../../support/pod-node.ts";

const node = fresh(PodNode.forContainers);
const clustered = fresh(PodNode.create);

/** "container interface" of every record, sorted. */
async function records(): Promise<readonly string[]> {
  return (await node.datastore.endpoints.list()).map(({ value }) => `${value.containerID} ${value.endpoint}`).sort();
}

describe("GC", () => {
  it("keeps address and record of a container whose link cannot be removed, and reports that", async () => {
    await node.add({ container: "stuck" });
    node.failure = { effect: "remove link", error: new Error("device busy") };

    await expect(node.gc()).rejects.toThrow("device busy");

    expect(await node.handles()).toEqual({ "net1.stuck": 1 });
    expect(await records()).toEqual(["stuck eth0"]);
    node.failure = undefined;
    await node.gc();
    expect(await node.handles()).toEqual({});
    expect(await records()).toEqual([]);
  });

  it("G19: leaves a link alone that another process was making when it looked, and removes the one that a killed ADD left", async () => {
    node.unfinished.set(101, "tmp1").set(102, "tmp2");

    const gc = node.gc(["running", "eth0"]);
    await settled();
    expect([...node.unfinished.keys()]).toEqual([101, 102]);
    node.unfinished.delete(101);
    node.links.set("calirunning", "tortie:net1/running/eth0");
    node.unfinished.set(103, "tmp3");
    await gc;

    expect([...node.unfinished.keys()]).toEqual([103]);
    expect([...node.links.keys()]).toEqual(["calirunning"]);
  });

  it("tells the interfaces of one container apart", async () => {
    await node.add({ container: "one" });
    await node.add({ container: "two", interfaceName: "net1" });

    await node.gc(["one", "eth0"], ["two", "eth0"]);

    expect([...node.links.values()]).toEqual(["tortie:net1/one/eth0"]);
    expect(await records()).toEqual(["one eth0"]);
  });

  it("leaves the records of other nodes and networks alone", async () => {
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

    expect(await records()).toEqual(["far eth0", "foreign eth0", "shared eth0"]);
  });

  it.each([
    ["is not ready", () => clustered.setReady(false), "Calico is currently not ready"],
    [
      "cannot be asked",
      async () => {
        clustered.failure = { effect: "get cluster-information default", error: new DatastoreError("unavailable", "connection refused") };
      },
      "connection refused",
    ],
  ])("removes links and leaves the datastore alone when the cluster %s", async (_, arrange, message) => {
    await clustered.add();
    await arrange();

    await expect(clustered.gc()).rejects.toThrow(message);

    expect([...clustered.links]).toEqual([]);
    expect(await clustered.handles()).toEqual({ "net1.c1": 1 });
  });

  it("lists no endpoints where they are annotations of pods, which a plugin may not list", async () => {
    await clustered.add();
    clustered.effects.length = 0;
    await clustered.gc();
    expect(await clustered.handles()).toEqual({});
    expect(clustered.effects).not.toContain("list endpoint");
  });

  it("does not mind a record that somebody else removed, or took over, meanwhile", async () => {
    for (const container of ["gone", "taken"]) await node.add({ container });
    const { endpoints } = node.datastore;
    const [gone, taken] = await endpoints.list();
    if (gone === undefined || taken === undefined) throw new Error("there are two");
    node.meanwhile = {
      effect: "delete endpoint",
      work: async () => {
        await endpoints.delete(gone.value, gone.revision);
        await endpoints.update(taken.value, { ...taken.value, containerID: "newer" }, taken.revision);
      },
    };

    await node.gc();

    expect(await records()).toEqual(["newer eth0"]);
  });
});
