/** A cluster that serves only one of Calico's groups, and which one the driver finds there. */
import { LEGACY, startCluster, V3 } from "../../support/kubernetes/test-cluster.ts";
import { openDatastoreOf } from "./open-datastore.ts";

describe("a cluster without the legacy group", () => {
  it("is worked with in the other one, which is found by asking; the one that is missing is named", async () => {
    await using cluster = await startCluster({ groups: [V3] });
    await cluster.createPool("edge", { group: V3 });
    await using store = await openDatastoreOf(cluster);
    expect((await store.pools.list()).map(({ value }) => value.name)).toEqual(["edge"]);
    await store.handles.create("net.c1", { id: "net.c1", blocks: { "10.60.0.0/26": 1 } });
    expect((await cluster.list(V3, "ipamhandles")).map(({ metadata }) => metadata.name)).toEqual(["net.c1"]);
    expect(store.description).toBe(`Kubernetes API server ${cluster.server}, group projectcalico.org/v3`);

    await using legacy = await openDatastoreOf(cluster, { group: LEGACY });
    expect(await legacy.handles.get("net.c1")).toBeUndefined();
    const refusal = { failure: "not-found", message: expect.stringContaining("list of ippools of crd.projectcalico.org/v1") };
    await expect(legacy.pools.list()).rejects.toMatchObject(refusal);
    await expect(legacy.handles.create("net.c1", { id: "net.c1", blocks: {} })).rejects.toMatchObject({ failure: "not-found" });
  });
});
