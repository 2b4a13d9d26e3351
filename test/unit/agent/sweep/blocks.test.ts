/** Which allocation of a block the sweep releases: a real store, an ADD and a DEL between its look and its release. */
import { sweptBlocks } from "../../../../agent/sweep/blocks.ts";
import { formatAddress } from "../../../../lib/addresses/address.ts";
import { IpamNode } from "../../../support/ipam-node.ts";

const ADDRESS = "10.62.0.3";
const REQUESTED = { args: `IP=${ADDRESS}` };
const LOG = { error() {}, info() {}, writeNow() {} };

async function onlyAllocated(node: IpamNode) {
  const { config, ipam } = node;
  const swept = sweptBlocks(() => [{ config, nodeName: "node-a", ipam: async () => ipam }], LOG);
  const [found, ...others] = await swept.list();
  if (found === undefined || others.length > 0) throw new Error(`one allocation was expected beside ${others.length} others`);
  return found;
}

describe("an allocation that the sweep has seen", () => {
  it("is released", async () => {
    await using node = new IpamNode({ ipam: { pools: [{ cidr: "10.62.0.0/26" }] } });
    await node.add(REQUESTED);
    const found = await onlyAllocated(node);
    expect(found.addresses.map(formatAddress)).toEqual([ADDRESS]);
    expect(await found.release()).toBe(true);
    expect(await node.datastore.handles.list()).toEqual([]);
  });

  it("C12: is left alone when the container has released it and holds the address by a newer one", async () => {
    await using node = new IpamNode({ ipam: { pools: [{ cidr: "10.62.0.0/26" }] } });
    await node.add(REQUESTED);
    const seen = await onlyAllocated(node);
    await node.del();
    await node.add(REQUESTED);

    expect(await seen.release()).toBe(false);

    const now = await onlyAllocated(node);
    expect(now.addresses.map(formatAddress)).toEqual([ADDRESS]);
    expect(now.key).not.toBe(seen.key);
  });
});
