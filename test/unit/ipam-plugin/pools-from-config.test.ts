import { ensurePools, poolChanges } from "../../../ipam-plugin/pools-from-config.ts";
import type { LocalPool } from "../../../lib/config/ipam-section.ts";
import { KUBERNETES_TRAITS } from "../../../lib/datastore/datastore.ts";
import { freeLock } from "../../support/free-lock.ts";
import { IpamNode } from "../../support/ipam-node.ts";
import { MemoryStore } from "../../support/memory-datastore.ts";
import { samplePool } from "../../support/samples.ts";

function wanted(name: string, cidr: string, changes: Partial<LocalPool> = {}): LocalPool {
  return { name, cidr, blockSize: 26, natOutgoing: true, ...changes };
}

describe("the pools of the configuration", () => {
  it("are all new to an empty store, with the defaults of a pool", () => {
    expect(poolChanges([], [wanted("a", "10.1.0.0/16", { natOutgoing: false })])).toEqual([
      samplePool("a", "10.1.0.0/16", { natOutgoing: false }),
    ]);
  });

  it("change nothing when they are stored already, and leave other pools alone", () => {
    expect(poolChanges([samplePool("a", "10.1.0.0/16"), samplePool("b", "10.2.0.0/16")], [wanted("a", "10.1.0.0/16")])).toEqual([]);
  });

  it("may change their masquerading, and nothing else of the pool changes", () => {
    const stored = samplePool("a", "10.1.0.0/16", { disabled: true, nodeSelector: "zone == 'x'" });
    expect(poolChanges([stored], [wanted("a", "10.1.0.0/16", { natOutgoing: false })])).toEqual([{ ...stored, natOutgoing: false }]);
  });

  it.each([
    ["another CIDR under the same name", wanted("a", "10.9.0.0/16"), /pool "a" 10\.9\.0\.0\/16.*pool "a" 10\.1\.0\.0\/16/],
    ["another block size", wanted("a", "10.1.0.0/16", { blockSize: 28 }), /blocks of \/28.*blocks of \/26/],
    ["another name for the same CIDR", wanted("z", "10.1.0.0/16"), /pool "z" 10\.1\.0\.0\/16.*pool "a" 10\.1\.0\.0\/16/],
    ["a CIDR inside a stored one", wanted("z", "10.1.7.0/24"), /10\.1\.7\.0\/24.*pool "a" 10\.1\.0\.0\/16/],
    ["a CIDR around a stored one", wanted("z", "10.0.0.0/8"), /10\.0\.0\.0\/8.*pool "a" 10\.1\.0\.0\/16/],
  ])("are refused with %s", (_what, pool, message) => {
    const act = () => poolChanges([samplePool("a", "10.1.0.0/16")], [pool]);
    expect(act).toThrow(expect.objectContaining({ word: "pool-conflict", message: expect.stringMatching(message) }));
  });

  it("are made by whichever of many first ADDs comes first, once", async () => {
    // The lock belongs to a process: it would make these wait for each other for ever.
    await using node = new IpamNode({ ipam: { pools: [{ cidr: "10.1.0.0/16" }, { cidr: "fd80::/64" }] } }, { lock: freeLock });
    await Promise.all(Array.from({ length: 8 }, (_, index) => node.add({ container: `c${index}` })));
    const pools = await node.datastore.pools.list();
    expect(pools.map(({ value }) => value.name)).toEqual(["10-1-0-0-16", "fd80---64"]);
    expect(new Set(Object.values(await node.allocated()).flat()).size).toBe(8);
  });

  it("are not written again when nothing changed, and updated when masquerading did", async () => {
    await using node = new IpamNode({ ipam: { pools: [{ cidr: "10.1.0.0/16" }] } });
    await node.add();
    const [made] = await node.datastore.pools.list();
    await node.add();
    expect((await node.datastore.pools.list())[0]?.revision).toBe(made?.revision);
    await node.add({ ipam: { pools: [{ cidr: "10.1.0.0/16", natOutgoing: false }] } });
    expect((await node.datastore.pools.list())[0]?.value.natOutgoing).toBe(false);
  });

  it("leave the stored pools as they were when one of them is refused", async () => {
    await using node = new IpamNode({ ipam: { pools: [{ cidr: "10.1.0.0/16" }] } });
    await node.add();
    const before = await node.datastore.pools.list();
    await expect(node.add({ ipam: { pools: [{ cidr: "10.2.0.0/16" }, { cidr: "10.1.0.0/24" }] } })).rejects.toMatchObject({
      word: "pool-conflict",
    });
    expect(await node.datastore.pools.list()).toEqual(before);
    await node.del();
  });

  it("are refused for a datastore whose pools are its own", async () => {
    const store = { ...new MemoryStore().connect(), traits: KUBERNETES_TRAITS };
    const ipam = { pools: [wanted("a", "10.1.0.0/16")] };
    const act = ensurePools(Object.assign(Object.create(null), { ipam }), store);
    await expect(act).rejects.toMatchObject({ word: "netconf-value", message: expect.stringContaining("ipam.pools") });
  });
});
