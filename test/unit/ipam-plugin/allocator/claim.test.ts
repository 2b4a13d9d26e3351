import type { AffinityState } from "../../../../lib/datastore/resources.ts";
import { Cluster, host, inEachStore } from "../../../support/cluster.ts";
import { fresh } from "../../../support/fixtures.ts";
import { emptyBlock, owned, sampleAffinity } from "../../../support/samples.ts";
import { change, remove } from "../../../support/stored.ts";

const CIDR = "10.0.0.64/26";
const STATES: readonly AffinityState[] = ["pending", "confirmed", "pendingDeletion"];

inEachStore(() => {
  describe("an affinity of the host", () => {
    it.each(STATES)("that is %s, without block, is completed", async (state) => {
      const cluster = await Cluster.create({ affinities: [sampleAffinity("node-a", CIDR, { state })] });
      expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.64/26"]);
      expect(await cluster.affinities()).toEqual([`node-a ${CIDR} confirmed`]);
    });

    it.each<[AffinityState, bigint]>([
      ["confirmed", 1001n],
      // Written once more than the assignment, to stop whoever is about to delete the block.
      ["pending", 1002n],
      ["pendingDeletion", 1002n],
    ])("that is %s, with the host's block, is confirmed, and the block's number is %p", async (state, sequenceNumber) => {
      const cluster = await Cluster.create({
        affinities: [sampleAffinity("node-a", CIDR, { state })],
        blocks: [emptyBlock(CIDR, 64, { affinity: host("node-a"), sequenceNumber: 1000n })],
      });
      expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.64/26"]);
      expect(await cluster.affinities()).toEqual([`node-a ${CIDR} confirmed`]);
      expect((await cluster.block(CIDR))?.sequenceNumber).toBe(sequenceNumber);
    });

    it.each(STATES)("that is %s, with another's block, is removed, and another block is claimed", async (state) => {
      const cluster = await Cluster.create({
        affinities: [sampleAffinity("node-a", CIDR, { state }), sampleAffinity("node-b", CIDR)],
        blocks: [emptyBlock(CIDR, 64, { affinity: host("node-b") })],
      });
      expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.128/26"]);
      expect(await cluster.affinities()).toEqual(["node-a 10.0.0.128/26 confirmed", `node-b ${CIDR} confirmed`]);
    });

    it.each(STATES)("that is %s, with a block without owner, is removed", async (state) => {
      const cluster = await Cluster.create({ affinities: [sampleAffinity("node-a", CIDR, { state })], blocks: [emptyBlock(CIDR, 64)] });
      expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.128/26"]);
      expect(await cluster.affinities()).toEqual(["node-a 10.0.0.128/26 confirmed"]);
    });

    it("that turns out another's does not count towards the block limit", async () => {
      const cluster = await Cluster.create({
        configuration: { maxBlocksPerHost: 1, strictAffinity: true },
        affinities: [sampleAffinity("node-a", CIDR)],
        blocks: [emptyBlock(CIDR, 64, { affinity: host("node-b") })],
      });
      expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.128/26"]);
    });

    it("that is confirmed without block is no longer confirmed while the block is made: routing believes it", async () => {
      const cluster = await Cluster.create({ affinities: [sampleAffinity("node-a", CIDR)] });
      let stateDuringCreation: string | undefined;
      cluster.before("create block", async () => {
        stateDuringCreation = (await cluster.datastore.affinities.get({ owner: host("node-a"), cidr: CIDR }))?.value.state;
      });
      await cluster.assign("node-a", "c1");
      expect(stateDuringCreation).toBe("pending");
    });

    it("without its labels gets them", async () => {
      const cluster = await Cluster.create(owned("node-a", [CIDR], { labelled: false }));
      await cluster.assign("node-a", "c1");
      expect((await cluster.datastore.affinities.get({ owner: host("node-a"), cidr: CIDR }))?.value.labelled).toBe(true);
    });

    it("of the load balancers' virtual host is not the node's of the same name", async () => {
      const virtual = { type: "virtual", name: "node-a" } as const;
      const cluster = await Cluster.create({
        affinities: [sampleAffinity("node-a", CIDR, { owner: virtual })],
        blocks: [emptyBlock(CIDR, 64, { affinity: virtual })],
      });
      expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.128/26"]);
      expect((await cluster.block(CIDR))?.affinity).toEqual(virtual);
    });
  });

  describe("a claim", () => {
    const cluster = fresh(() => Cluster.create());
    const key = { owner: host("node-a"), cidr: "10.0.0.128/26" };

    it("goes on when the affinity turns out to be there, and to be gone when it is looked at", async () => {
      const affinity = sampleAffinity("node-a", "10.0.0.128/26", { state: "pending" });
      cluster.before("create affinity", async () => {
        const stored = await cluster.datastore.affinities.create(affinity, affinity);
        cluster.before("get affinity", () => cluster.datastore.affinities.delete(affinity, stored.revision));
      });
      expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.128/26"]);
      expect(cluster.calls.filter((call) => call.startsWith("create affinity"))).toHaveLength(2);
    });

    it("is content when another process of the host has confirmed meanwhile", async () => {
      cluster.before("update affinity", () => change(cluster.datastore.affinities, key, { state: "confirmed" }));
      expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.128/26"]);
      expect(cluster.calls.filter((call) => call.startsWith("update affinity"))).toHaveLength(1);
    });

    it("starts over when a releaser has marked the affinity before it is confirmed", async () => {
      cluster.before("update affinity", () => change(cluster.datastore.affinities, key, { state: "pendingDeletion" }));
      expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.128/26"]);
      expect(await cluster.affinities()).toEqual(["node-a 10.0.0.128/26 confirmed"]);
    });

    it("starts over when the block is released before it is confirmed", async () => {
      // As a releaser does with the block that node-a has just created.
      cluster.before("update affinity", async () => {
        const { affinities, blocks } = cluster.datastore;
        await change(affinities, key, { state: "pendingDeletion" });
        await remove(blocks, key.cidr);
        await remove(affinities, key);
      });
      expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.128/26"]);
      expect(await cluster.affinities()).toEqual(["node-a 10.0.0.128/26 confirmed"]);
    });

    it("of a block that another host has taken since it was looked at takes the next one", async () => {
      cluster.before("create block 10-0-0-128-26", () =>
        cluster.datastore.blocks.create("10.0.0.128/26", emptyBlock("10.0.0.128/26", 64, { affinity: host("node-b") })),
      );
      expect(await cluster.assign("node-a", "c1")).toEqual(["10.0.0.192/26"]);
      expect(await cluster.affinities()).toEqual(["node-a 10.0.0.192/26 confirmed"]);
    });
  });
});
