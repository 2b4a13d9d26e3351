/** The cases of Calico's suite for its IPAM executable (I§8.1) on the local store, which is looked at through the datastore port. */
import { Allocator } from "../../../ipam-plugin/allocator/allocator.ts";
import { systemClock } from "../../../ipam-plugin/host.ts";
import { addressAt, formatAddress, parsePrefix } from "../../../lib/addresses/address.ts";
import { openLocalDatastore } from "../../../lib/datastore/local/local-datastore.ts";
import { address } from "../../support/addresses.ts";
import { type CalicoSuite, callIpam, type IpamCall, NODE, POOL4, POOL6, testCalicoCases, timeless } from "../../support/calico-cases.ts";
import { fresh } from "../../support/fixtures.ts";
import { Node } from "../../support/node.ts";
import { samplePool } from "../../support/samples.ts";
import { readStore } from "../../support/store.ts";

const node = fresh(Node.create);

async function inStore<T>(work: (datastore: ReturnType<typeof openLocalDatastore>) => Promise<T>): Promise<T> {
  await using datastore = openLocalDatastore(node.datastorePath);
  return await work(datastore);
}

const call = (command: string, options: IpamCall = {}) =>
  callIpam(node, command, options, {
    cniVersion: "0.3.1",
    datastore_type: "local",
    datastore_path: node.datastorePath,
    ipam_lock_file: `${node.dir}/ipam.lock`,
    ipam: { type: "calico-ipam", ...options.ipam },
  });

const SUITE: CalicoSuite = {
  add: (options) => call("ADD", options),
  del: (options) => call("DEL", options),
  createPool: (name, { cidr, ...changes }) =>
    inStore(async ({ pools }) => void (await pools.create(name, samplePool(name, cidr, changes)))),
  disablePool: (name) =>
    inStore(async ({ pools }) => {
      const pool = await pools.get(name);
      if (pool === undefined) throw new Error(`no pool ${name}`);
      await pools.update(name, { ...pool.value, disabled: true }, pool.revision);
    }),
  removePool: (name) => inStore(async ({ pools }) => void (await pools.delete(name, (await pools.get(name))?.revision ?? ""))),
  heldBy: (handle) =>
    inStore(async ({ blocks }) => {
      const held = (await blocks.list()).flatMap(({ value: { cidr, allocations, attributes } }) => {
        const prefix = parsePrefix(cidr);
        return allocations.flatMap((index, ordinal) => {
          const attribute = index === null ? undefined : attributes[index];
          if (prefix === undefined || attribute?.handleId !== handle) return [];
          const { activeOwner, alternateOwner } = attribute;
          return [
            { address: formatAddress(addressAt(prefix, ordinal)), active: timeless(activeOwner), alternate: timeless(alternateOwner) },
          ];
        });
      });
      return held.toSorted((a, b) => Number(a.address.includes(":")) - Number(b.address.includes(":")));
    }),
  ownerOf: (cidr) =>
    inStore(async ({ blocks }) => {
      const owner = (await blocks.get(cidr))?.value.affinity;
      return owner && `${owner.type}:${owner.name}`;
    }),
  expectNothingHeld: async () => expect(await readStore(node)).toMatchObject({ allocated: [], handles: [] }),
};

describe("calico-ipam, as Calico's suite calls it", () => {
  beforeEach(async () => {
    await SUITE.createPool("p4", { cidr: POOL4 });
    await SUITE.createPool("p6", { cidr: POOL6 });
  });

  testCalicoCases(SUITE);

  it("I17: releases what stands under the old handle and under the new one", async () => {
    for (const handle of ["cid1", "net1.cid1"]) {
      const look = () => inStore((datastore) => new Allocator({ datastore, clock: systemClock }).addressesByHandle(handle));
      await inStore(async (datastore) => {
        const allocator = new Allocator({ datastore, clock: systemClock });
        await allocator.assignIp({ address: address("192.168.123.123"), handle, attributes: {}, owner: { type: "host", name: NODE } });
      });
      expect((await look())?.length).toBe(1);
      expect(await SUITE.del()).toMatchObject({ exit: 0, addresses: [], msg: "" });
      expect(await look()).toBeUndefined();
    }
  });
});
