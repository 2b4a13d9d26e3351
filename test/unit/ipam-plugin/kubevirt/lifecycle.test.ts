/** What a virtual machine's pods see of its addresses, row by row of I§8.2. */
import { fresh } from "../../../support/fixtures.ts";
import { argsOf, VirtualMachine } from "../../../support/virtual-machines.ts";

const SOURCE = "virt-launcher-test-vm-source";
const TARGET = "virt-launcher-test-vm-target";
const NEXT = "virt-launcher-test-vm-next";

const MIGRATION = { "vmim-uid": "job-1" };
const NONE = {};

/** One entry for each of the two families. */
function twice<T>(value: T): readonly T[] {
  return [value, value];
}

const machine = fresh(() => VirtualMachine.create());
/** What the first pod of the machine got, without prefix lengths. */
let addresses: readonly string[];
beforeEach(async () => {
  addresses = await addSource(machine);
});

async function addSource(machine: VirtualMachine): Promise<readonly string[]> {
  await machine.putPod(SOURCE);
  const { addresses, routes } = await machine.add(SOURCE);
  expect(addresses).toEqual([expect.stringMatching(/^10\.40\.0\.\d+\/26$/), expect.stringMatching(/^fd80:40::[0-9a-f]*\/122$/)]);
  expect(routes).toEqual(addresses);
  expect(await machine.held()).toEqual(twice({ active: machine.owner(SOURCE), alternate: NONE }));
  return addresses.map((address) => address.replace(/\/\d+$/, ""));
}

function single(addresses: readonly string[]): readonly string[] {
  return addresses.map((address) => `${address}/${address.includes(":") ? 128 : 32}`);
}

describe("the addresses of a virtual machine", () => {
  it("K1: outlive a pod, and go with routes to the next pod of the same instance", async () => {
    await machine.del(SOURCE);
    await machine.remove("pods", SOURCE);
    expect(await machine.addresses()).toEqual(addresses);
    expect(await machine.held()).toEqual(twice({ active: NONE, alternate: NONE }));
    await machine.putPod(NEXT);
    expect(await machine.add(NEXT)).toEqual({ addresses: single(addresses), routes: single(addresses) });
    expect(await machine.held()).toEqual(twice({ active: machine.owner(NEXT), alternate: NONE }));
    await machine.del(NEXT);
    expect(await machine.addresses()).toEqual(addresses);
  });

  it("K2: are shown without routes to the target of a live migration, which is their alternate owner", async () => {
    await machine.putTarget(TARGET);
    expect(await machine.add(TARGET)).toEqual({ addresses: single(addresses), routes: [] });
    expect(await machine.held()).toEqual(twice({ active: machine.owner(SOURCE), alternate: machine.owner(TARGET, MIGRATION) }));
    await machine.del(SOURCE);
    expect(await machine.held()).toEqual(twice({ active: NONE, alternate: machine.owner(TARGET, MIGRATION) }));
    await machine.del(TARGET);
    expect(await machine.held()).toEqual(twice({ active: NONE, alternate: NONE }));
    expect(await machine.addresses()).toEqual(addresses);
  });

  it("K3: stay when the instance is deleted and made anew with another UID", async () => {
    await machine.del(SOURCE);
    await machine.remove("pods", SOURCE);
    await machine.putInstance({ uid: "vmi-uid-2" });
    await machine.putPod(NEXT);
    expect((await machine.add(NEXT)).addresses).toEqual(single(addresses));
    expect(await machine.held()).toEqual(twice({ active: machine.owner(NEXT, { "vmi-uid": "vmi-uid-2" }), alternate: NONE }));
  });

  it("K4: lose their owner and nothing else with a DEL while the machine lives", async () => {
    await machine.del(SOURCE);
    expect(await machine.addresses()).toEqual(addresses);
    expect(await machine.held()).toEqual(twice({ active: NONE, alternate: NONE }));
  });

  it("K5: stay while only the instance is being deleted and the machine lives", async () => {
    await machine.putInstance({ isDeleting: true });
    await machine.del(SOURCE);
    expect(await machine.addresses()).toEqual(addresses);
  });

  it("K6: are released with the last pod of a machine that is being deleted", async () => {
    await machine.putMachine({ isDeleting: true });
    await machine.del(SOURCE);
    expect(await machine.node.handles()).toEqual([]);
    expect(await machine.node.allocated()).toEqual({});
  });

  it.each([
    ["K7: of a machine being deleted are released by the target's DEL when the source's came first", SOURCE, TARGET],
    ["K8: of a machine being deleted are released by the source's DEL when the target's came first", TARGET, SOURCE],
  ])("%s", async (_title, first, second) => {
    await machine.putTarget(TARGET);
    await machine.add(TARGET);
    await machine.putMachine({ isDeleting: true });
    await machine.del(first);
    expect(await machine.addresses()).toEqual(addresses);
    await machine.del(second);
    expect(await machine.node.handles()).toEqual([]);
  });

  it("K9: are left alone by the DEL of a pod that is gone already", async () => {
    await machine.remove("pods", SOURCE);
    await machine.del(SOURCE);
    expect(await machine.addresses()).toEqual(addresses);
    expect(await machine.held()).toEqual(twice({ active: machine.owner(SOURCE), alternate: NONE }));
  });

  it("K10: of an instance without machine are released when that is being deleted", async () => {
    await using machine = await VirtualMachine.create({ hasMachine: false });
    await addSource(machine);
    await machine.putInstance({ isDeleting: true });
    await machine.del(SOURCE);
    expect(await machine.node.handles()).toEqual([]);
  });

  it("are not released twice, and DEL is not stopped, when nothing is held any more (golden notes, bug 6)", async () => {
    await machine.putMachine({ isDeleting: true });
    await machine.del(SOURCE);
    await machine.del(SOURCE);
    expect(await machine.node.handles()).toEqual([]);
  });

  it("pass CHECK under the handle of the machine, for source and target", async () => {
    await machine.putTarget(TARGET);
    await machine.add(TARGET);
    const prevResult = { cniVersion: "1.0.0", ips: single(addresses).map((address) => ({ address })) };
    for (const pod of [SOURCE, TARGET]) await machine.node.check({ container: pod, args: argsOf(pod), conf: { prevResult } });
    const other = { cniVersion: "1.0.0", ips: [{ address: "10.40.0.250/32" }] };
    const check = machine.node.check({ container: SOURCE, args: argsOf(SOURCE), conf: { prevResult: other } });
    await expect(check).rejects.toThrow("10.40.0.250/32 not allocated to handle net1.vmi.shop.test-vm any more");
  });

  it("are never collected by GC", async () => {
    await machine.node.gc({ conf: { cniVersion: "1.1.0", "cni.dev/valid-attachments": [] } });
    await machine.del(SOURCE);
    await machine.node.gc({ conf: { cniVersion: "1.1.0", "cni.dev/valid-attachments": [] } });
    expect(await machine.addresses()).toEqual(addresses);
  });
});
