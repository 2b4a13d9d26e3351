/** Lists that are long, and lists in which something is wrong. */
import type { DatastoreError } from "../../../lib/datastore/errors.ts";
import { fresh, shared } from "../../support/fixtures.ts";
import { type Fields, LEGACY, startCluster } from "../../support/kubernetes/test-cluster.ts";
import { openDatastoreOf } from "./open-datastore.ts";

const damaged: DatastoreError[] = [];
const cluster = shared(startCluster);
beforeEach(async () => {
  await cluster.reset();
  damaged.length = 0;
});
const store = fresh(() => openDatastoreOf(cluster, { group: LEGACY, onDamaged: (error) => damaged.push(error) }));

const put = (kind: string, name: string, spec: Fields) => cluster.apply({ apiVersion: LEGACY, kind, metadata: { name }, spec });

describe("a list of more objects than fit a page", () => {
  it("has all of them once, in name order, read in pages of 500", async () => {
    const ids = Array.from({ length: 1003 }, (_, index) => `net.c${String(index).padStart(4, "0")}`);
    for (let from = 0; from < ids.length; from += 50) {
      await Promise.all(ids.slice(from, from + 50).map((id) => put("IPAMHandle", id, { handleID: id, block: {}, deleted: false })));
    }
    const mark = await cluster.mark();
    expect((await store.handles.list()).map(({ value }) => value.id)).toEqual(ids);
    const asked = (await cluster.requests(mark)).map(({ uri }) => uri.replace(/continue=[^&]+/, "continue=X"));
    const first = `/apis/${LEGACY}/ipamhandles?limit=500`;
    expect(asked).toEqual([first, `${first}&continue=X`, `${first}&continue=X`]);
  });
});

describe("a damaged object", () => {
  const block = { cidr: "10.40.0.8/31", unallocated: [], attributes: [], strictAffinity: false };

  it("is named when it is read, and left out of a list that holds the others when not even its place can be told", async () => {
    await put("IPAMBlock", "x", { ...block, cidr: "10.0.0.0/8", allocations: [] });
    await put("IPAMBlock", "10-40-0-10-31", { ...block, cidr: "10.40.0.10/31", allocations: [null, null] });
    expect((await store.blocks.list()).map(({ value }) => value.cidr)).toEqual(["10.40.0.10/31"]);
    expect(damaged.map(({ message }) => message)).toEqual([expect.stringContaining("IPAMBlock(x) cannot be read")]);

    await put("IPAMBlock", "10-40-0-8-31", { ...block, allocations: [7, null] });
    await expect(store.blocks.get("10.40.0.8/31")).rejects.toMatchObject({
      failure: "invalid",
      message: expect.stringContaining("IPAMBlock(10-40-0-8-31) cannot be read: allocations refers to attribute 7 of 0"),
    });
  });

  it("keeps its place among the blocks, so that nobody takes it for free, and fails only who looks at its addresses", async () => {
    await put("IPAMBlock", "10-40-0-8-31", { ...block, allocations: [7, null] });
    await put("IPAMBlock", "10-40-0-10-31", { ...block, cidr: "10.40.0.10/31", allocations: [null, null] });
    const [good, bad] = await store.blocks.list();
    expect([good?.value.cidr, bad?.value.cidr]).toEqual(["10.40.0.10/31", "10.40.0.8/31"]);
    expect(good?.value.allocations).toEqual([null, null]);
    expect(() => bad?.value.allocations).toThrow(expect.objectContaining({ failure: "invalid" }));
  });
});
