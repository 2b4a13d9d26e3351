/** Writes that the server carries out and whose answer nobody gets, and what an API server that ends in between leaves. */
import { fresh, shared } from "../../support/fixtures.ts";
import { LEGACY, startCluster } from "../../support/kubernetes/test-cluster.ts";
import { emptyBlock, sampleAffinity, sampleBlock } from "../../support/samples.ts";
import { openDatastoreOf } from "./open-datastore.ts";

const cluster = shared(startCluster);
const proxy = shared(() => cluster.proxy());
beforeEach(async () => {
  await cluster.reset();
  proxy.clear();
});
const store = fresh(() => openDatastoreOf(proxy, { group: LEGACY }));

const HANDLE = { id: "net.c1", blocks: { "10.40.0.8/29": 1 } };
const handles = async () => (await cluster.list(LEGACY, "ipamhandles")).map(({ spec }) => spec?.block);
const writes = () => proxy.requests.filter(({ method }) => method !== "GET").length;

describe("an answer that is lost", () => {
  it("of a create leaves one object, whose revision is known", async () => {
    proxy.on({ method: "POST" }, { kind: "lose-answer" });
    const made = await store.handles.create(HANDLE.id, HANDLE);
    expect(writes()).toBe(2);
    expect(made).toEqual(await store.handles.get(HANDLE.id));
    await store.handles.delete(HANDLE.id, made.revision);
    expect(await handles()).toEqual([]);
  });

  it("of an update leaves it done once, whose revision is known", async () => {
    const block = sampleBlock();
    const made = await store.blocks.create(block.cidr, block);
    const next = { ...block, sequenceNumber: block.sequenceNumber + 1n };
    proxy.on({ method: "PUT" }, { kind: "lose-answer" });
    const updated = await store.blocks.update(block.cidr, next, made.revision);
    expect(updated.value).toEqual(next);
    expect(updated).toEqual(await store.blocks.get(block.cidr));
    await store.blocks.update(block.cidr, { ...next, sequenceNumber: next.sequenceNumber + 1n }, updated.revision);
  });

  it("of a delete leaves it done", async () => {
    const row = sampleAffinity("worker-1", "10.40.0.8/29");
    const made = await store.affinities.create(row, row);
    proxy.on({ method: "DELETE" }, { kind: "lose-answer" });
    await store.affinities.delete(row, made.revision);
    expect(await cluster.list(LEGACY, "blockaffinities")).toEqual([]);
  });

  it("is no success when somebody else was there first", async () => {
    await cluster.apply({
      apiVersion: LEGACY,
      kind: "IPAMHandle",
      metadata: { name: "net.c1" },
      spec: { handleID: "net.c1", block: { "10.40.0.8/29": 3 }, deleted: false },
    });
    const other = await store.handles.get(HANDLE.id);
    if (other === undefined) throw new Error("the handle is missing");
    proxy.on({ method: "POST" }, { kind: "cut" });
    await expect(store.handles.create(HANDLE.id, HANDLE)).rejects.toMatchObject({ failure: "already-exists" });

    const elsewhere = { kind: "before", action: async () => void (await touch()) } as const;
    const touch = () => cluster.api("PATCH", `/apis/${LEGACY}/ipamhandles/net.c1`, { spec: { block: { x: 9 } } });
    proxy.on({ method: "PUT" }, { kind: "cut" }).on({ method: "PUT", nth: 2 }, elsewhere);
    await expect(store.handles.update(HANDLE.id, HANDLE, other.revision)).rejects.toMatchObject({ failure: "conflict" });
    proxy.on({ method: "DELETE" }, { kind: "cut" });
    await expect(store.handles.delete(HANDLE.id, other.revision)).rejects.toMatchObject({ failure: "conflict" });
    expect(await handles()).toEqual([{ "10.40.0.8/29": 3, x: 9 }]);
  });

  it("of a delete does not hide that the object was made anew", async () => {
    const made = await store.handles.create(HANDLE.id, HANDLE);
    const again = async () => {
      await cluster.remove(LEGACY, "ipamhandles", "net.c1");
      await cluster.apply({
        apiVersion: LEGACY,
        kind: "IPAMHandle",
        metadata: { name: "net.c1" },
        spec: { handleID: "net.c1", block: {} },
      });
    };
    proxy.on({ method: "DELETE" }, { kind: "cut" }).on({ method: "DELETE", nth: 2 }, { kind: "before", action: again });
    await expect(store.handles.delete(HANDLE.id, made.revision)).rejects.toMatchObject({ failure: "conflict" });
    expect(await handles()).toEqual([{}]);
  });

  it("of every single write of many leaves exactly what was meant", async () => {
    proxy.on({ method: "POST", times: 3 }, { kind: "lose-answer" }).on({ method: "PUT", times: 3 }, { kind: "lose-answer" });
    proxy.on({ method: "DELETE" }, { kind: "lose-answer" });
    const block = emptyBlock("10.40.0.8/31", 2);
    const made = await store.blocks.create(block.cidr, block);
    const updated = await store.blocks.update(block.cidr, { ...block, sequenceNumber: 7n }, made.revision);
    await store.blocks.delete(block.cidr, updated.revision);
    expect(await cluster.list(LEGACY, "ipamblocks")).toEqual([]);
  });
});
