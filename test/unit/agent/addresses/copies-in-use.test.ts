/** Which reads a copy may answer: those that may be old, while it is usable (A§11.7). */
import { cachedDatastore } from "../../../../agent/addresses/cached-datastore.ts";
import { Cluster } from "../../../support/cluster.ts";
import { samplePool } from "../../../support/samples.ts";

describe("A copy of the pools", () => {
  it("answers reads and lists that may be old, and no others, and none while it is not usable", async () => {
    const cluster = await Cluster.create({ pools: { "10.0.0.0/24": {} } });
    const stored = await cluster.datastore.pools.get("p0");
    if (stored === undefined) throw new Error("there is one");
    const copied = { name: "p0", stored: { ...stored, value: samplePool("p0", "10.9.0.0/24") }, isMarked: false };
    const copy = { isUsable: true, get: () => copied, list: () => [copied] };
    const { pools } = cachedDatastore(cluster.observed, { pools: copy });
    const seen = async () => [
      (await pools.get("p0", { mayBeOld: true }))?.value.cidr,
      (await pools.get("p0"))?.value.cidr,
      (await pools.list({ mayBeOld: true }))[0]?.value.cidr,
      (await pools.list())[0]?.value.cidr,
    ];
    expect(await seen()).toEqual(["10.9.0.0/24", "10.0.0.0/24", "10.9.0.0/24", "10.0.0.0/24"]);
    copy.isUsable = false;
    expect(await seen()).toEqual(Array(4).fill("10.0.0.0/24"));
  });
});
