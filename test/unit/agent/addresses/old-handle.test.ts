/** A release whose handle comes from memory: another process may have granted to the handle since. */
import { LastKnown } from "../../../../agent/addresses/read-your-writes.ts";
import { Allocator } from "../../../../ipam-plugin/allocator/allocator.ts";
import { sequenceOf } from "../../../../ipam-plugin/allocator/block.ts";
import { formatAddress } from "../../../../lib/addresses/address.ts";
import { Cluster } from "../../../support/cluster.ts";

const [FIRST, SECOND] = ["10.0.0.0/26", "10.1.0.0/26"];

describe("a handle from memory", () => {
  it("B6: that lacks its newest block does not end a release that finds nothing in the blocks it knows", async () => {
    const cluster = await Cluster.create({ hasMemory: true, pools: { [FIRST]: {}, [SECOND]: {} } });
    await cluster.assign("node-a", "c1", 1, { ipv4Pools: ["p0"] });
    const { handles: stored } = cluster.observed;
    const handles = Object.assign(new LastKnown(stored), { list: () => stored.list() });
    await handles.get("c1");
    await cluster.assign("node-a", "c1", 1, { ipv4Pools: ["p1"] });
    expect(await cluster.handles()).toEqual({ c1: { [FIRST]: 1, [SECOND]: 1 } });
    const newest = await cluster.block(SECOND);
    if (newest === undefined) throw new Error("no second block");
    const clock = { nowMs: () => cluster.nowMs, nowNs: () => 1_787_405_700_000_000_000n };
    const remembering = new Allocator({ datastore: { ...cluster.observed, handles }, clock });

    const sequenceNumber = sequenceOf(newest, newest.allocations.indexOf(0));
    const { released } = await remembering.releaseByHandle(
      "c1",
      { sequenceNumbers: new Set([sequenceNumber]) },
      remembering.begin({ mayBeOld: true }),
    );

    expect(released.map(formatAddress)).toEqual(["10.1.0.0"]);
    expect(await cluster.handles()).toEqual({ c1: { [FIRST]: 1 } });
  });
});
