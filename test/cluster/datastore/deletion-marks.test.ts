/** Objects that somebody marked as deleted and did not remove (I§2.10): Calico's way of deleting, cut off in the middle. */
import { fresh, shared } from "../../support/fixtures.ts";
import { type CalicoGroup, type Fields, LEGACY, startCluster, V3 } from "../../support/kubernetes/test-cluster.ts";
import { emptyBlock, sampleAffinity } from "../../support/samples.ts";
import { openDatastoreOf } from "./open-datastore.ts";

const cluster = shared(startCluster);

const CIDR = "10.40.0.8/31";
const ROW = sampleAffinity("worker-1", CIDR);
const BLOCK = emptyBlock(CIDR, 2);

describe.each([LEGACY, V3] as const)("an object of %s that is marked as deleted", (group: CalicoGroup) => {
  const yes = group === LEGACY ? "true" : true;
  const spec = { cidr: CIDR, allocations: [null, null], unallocated: [0, 1], attributes: [], strictAffinity: false };
  beforeEach(() => cluster.reset());
  const store = fresh(() => openDatastoreOf(cluster, { group }));

  const put = (kind: string, name: string, fields: Fields) => cluster.apply({ apiVersion: group, kind, metadata: { name }, spec: fields });
  const putAll = async () => {
    await put("IPAMBlock", "10-40-0-8-31", { ...spec, deleted: true });
    await put("BlockAffinity", "worker-1-10-40-0-8-31", { state: "confirmed", node: "worker-1", type: "host", cidr: CIDR, deleted: yes });
    await put("IPAMHandle", "net.c1", { handleID: "net.c1", block: { [CIDR]: 1 }, deleted: true });
  };
  const left = async () => [
    ...(await cluster.list(group, "ipamblocks")),
    ...(await cluster.list(group, "blockaffinities")),
    ...(await cluster.list(group, "ipamhandles")),
  ];

  it("is missing to whoever reads it, and is removed by that", async () => {
    await putAll();
    expect(await store.blocks.get(CIDR)).toBeUndefined();
    expect(await store.affinities.get(ROW)).toBeUndefined();
    expect(await store.handles.get("net.c1")).toBeUndefined();
    expect(await left()).toEqual([]);
  });

  it("is in no list, and stays where it is", async () => {
    await putAll();
    expect(await store.blocks.list()).toEqual([]);
    expect(await store.affinities.listAll()).toEqual([]);
    expect(await store.handles.list()).toEqual([]);
    expect((await left()).length).toBe(3);
  });

  it("makes room for one that is created", async () => {
    await putAll();
    await store.blocks.create(CIDR, BLOCK);
    await store.affinities.create(ROW, ROW);
    await store.handles.create("net.c1", { id: "net.c1", blocks: { [CIDR]: 2 } });
    expect((await store.blocks.get(CIDR))?.value).toEqual(BLOCK);
    expect((await store.affinities.get(ROW))?.value).toEqual(ROW);
    expect((await store.handles.get("net.c1"))?.value.blocks).toEqual({ [CIDR]: 2 });
  });

  it("is not written to by who knew it before", async () => {
    const made = await store.handles.create("net.c1", { id: "net.c1", blocks: { [CIDR]: 1 } });
    await put("IPAMHandle", "net.c1", { handleID: "net.c1", block: { [CIDR]: 1 }, deleted: true });
    await expect(store.handles.update("net.c1", { id: "net.c1", blocks: {} }, made.revision)).rejects.toMatchObject({
      failure: "conflict",
    });
    await expect(store.handles.delete("net.c1", made.revision)).rejects.toMatchObject({ failure: "conflict" });
  });
});
