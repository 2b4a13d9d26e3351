/** Which allocation of a block the sweep releases: a real store, an ADD and a DEL between its look and its release. */
import { sweptBlocks } from "../../../../agent/sweep/addresses.ts";
import { formatAddress } from "../../../../lib/addresses/address.ts";
import { fresh } from "../../../support/fixtures.ts";
import { IpamNode } from "../../../support/ipam-node.ts";
import { workloadEndpointOf } from "../../../support/workload-endpoint.ts";

const ADDRESS = "10.62.0.3";
const REQUESTED = { args: `IP=${ADDRESS}` };
const LOG = { error() {}, info() {}, writeNow() {} };

const node = fresh(() => new IpamNode({ ipam: { pools: [{ cidr: "10.62.0.0/26" }] } }));

function swept() {
  return sweptBlocks(() => [{ config: node.config, nodeName: "node-a", ipam: async () => node.ipam }], LOG);
}

async function onlyAllocated() {
  const [found, ...others] = await swept().list();
  if (found === undefined || others.length > 0) throw new Error(`one allocation was expected beside ${others.length} others`);
  return found;
}

describe("an allocation that the sweep has seen", () => {
  it("is released", async () => {
    await node.add(REQUESTED);
    const found = await onlyAllocated();
    expect(found.addresses.map(formatAddress)).toEqual([ADDRESS]);
    expect(await found.release()).toBe(true);
    expect(await node.datastore.handles.list()).toEqual([]);
  });

  it("C12: is left alone when the container has released it and holds the address by a newer one", async () => {
    await node.add(REQUESTED);
    const seen = await onlyAllocated();
    await node.del();
    await node.add(REQUESTED);

    expect(await seen.release()).toBe(false);

    const now = await onlyAllocated();
    expect(now.addresses.map(formatAddress)).toEqual([ADDRESS]);
    expect(now.key).not.toBe(seen.key);
  });
});

describe("G19: the records that a look compares before it releases", () => {
  const recordOf = (containerId: string, addresses: readonly string[]) => {
    const value = workloadEndpointOf({ node: "node-a", network: "net1", containerId, addresses });
    return { key: { namespace: value.namespace, name: value.name }, value };
  };
  const write = async ({ key, value }: ReturnType<typeof recordOf>) => void (await node.datastore.endpoints.create(key, value));

  it("are listed once, and when there is something to release, however many addresses go; and again at the next look", async () => {
    for (const container of ["c1", "c2", "c3"]) {
      const addresses = await node.addresses({ container });
      await write(
        recordOf(
          container,
          addresses.map((address) => address.split("/")[0] ?? ""),
        ),
      );
    }
    const lists = jest.spyOn(node.datastore.endpoints, "list");
    const allocations = swept();

    const found = await allocations.list();
    expect([found.length, lists.mock.calls.length]).toEqual([3, 0]);
    for (const one of found.slice(0, 2)) expect(await one.release()).toBe(true);
    expect(lists).toHaveBeenCalledTimes(1);

    const [left] = await allocations.list();
    expect(await left?.release()).toBe(true);
    expect(lists).toHaveBeenCalledTimes(2);
    expect(await node.datastore.endpoints.list()).toEqual([]);
    expect(await node.datastore.handles.list()).toEqual([]);
  });

  it("are read again: one that has become another container's keeps the address, and one that names another by now is kept", async () => {
    for (const container of ["c1", "c2", "c3"]) await node.add({ container, args: `IP=10.62.0.${container.slice(1)}` });
    const taken = recordOf("c2", ["10.62.0.2"]);
    const moved = recordOf("c3", ["10.62.0.3"]);
    for (const one of [taken, moved]) await write(one);
    const [first, second, third] = await swept().list();
    expect(await first?.release()).toBe(true);

    await node.datastore.records.write({ ...taken.value, containerID: "newer" });
    await node.datastore.records.write({ ...moved.value, ipNetworks: ["10.62.0.9/32"] });

    expect([await second?.release(), await third?.release()]).toEqual([false, true]);
    const records = (await node.datastore.endpoints.list()).map(({ value }) => [value.containerID, ...value.ipNetworks]);
    expect(records.sort()).toEqual([
      ["c3", "10.62.0.9/32"],
      ["newer", "10.62.0.2/32"],
    ]);
  });
});
