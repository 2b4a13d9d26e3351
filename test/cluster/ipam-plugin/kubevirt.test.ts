/** What a virtual machine's pods see of its addresses, row by row of I§8.2, against a real API server in both groups. */
import { shared } from "../../support/fixtures.ts";
import { LEGACY, V3 } from "../../support/kubernetes/test-cluster.ts";
import { HANDLE, NEXT, SOURCE, TARGET, VirtualMachine } from "./virtual-machine.ts";
import { World } from "./world.ts";

const MIGRATION = { "vmim-uid": "job-1" };
const DONE = { exit: 0, addresses: [], routes: [], msg: "" };

const world = shared(World.create);

function single(addresses: readonly string[]): readonly string[] {
  return addresses.map((address) => `${address}/${address.includes(":") ? 128 : 32}`);
}

/** A machine whose first pod has its two addresses. */
async function running(hasMachine = true): Promise<{ readonly machine: VirtualMachine; readonly addresses: readonly string[] }> {
  const machine = await VirtualMachine.create(world, hasMachine);
  await machine.putPod(SOURCE);
  const answer = await machine.add(SOURCE);
  expect(answer).toMatchObject({
    exit: 0,
    addresses: [expect.stringMatching(/^192\.168\..*\/26$/), expect.stringMatching(/^fd80:.*\/122$/)],
  });
  expect(answer.routes).toEqual(answer.addresses);
  const addresses = answer.addresses.map((address) => address.replace(/\/\d+$/, ""));
  expect(await machine.held()).toEqual(machine.ownedBy(addresses, { active: machine.owner(SOURCE) }));
  return { machine, addresses };
}

describe.each([LEGACY, V3] as const)("the addresses of a virtual machine, group %s", (group) => {
  beforeEach(() => world.reset(group));

  it("K1: outlive a pod, and go with routes to the next pod of the same instance", async () => {
    const { machine, addresses } = await running();
    expect(await machine.del(SOURCE)).toEqual(DONE);
    await machine.removePod(SOURCE);
    expect(await machine.held()).toEqual(machine.ownedBy(addresses, {}));
    await machine.putPod(NEXT);
    expect(await machine.add(NEXT)).toEqual({ exit: 0, addresses: single(addresses), routes: single(addresses), msg: "" });
    expect(await machine.held()).toEqual(machine.ownedBy(addresses, { active: machine.owner(NEXT) }));
    expect(await machine.del(NEXT)).toEqual(DONE);
    expect(await machine.addresses()).toEqual(addresses);
  });

  it("K2: are shown without routes to the target of a live migration, which is their alternate owner", async () => {
    const { machine, addresses } = await running();
    await machine.putTarget();
    expect(await machine.add(TARGET)).toEqual({ exit: 0, addresses: single(addresses), routes: [], msg: "" });
    const alternate = machine.owner(TARGET, MIGRATION);
    expect(await machine.held()).toEqual(machine.ownedBy(addresses, { active: machine.owner(SOURCE), alternate }));
    expect(await machine.del(SOURCE)).toEqual(DONE);
    expect(await machine.held()).toEqual(machine.ownedBy(addresses, { alternate }));
    expect(await machine.del(TARGET)).toEqual(DONE);
    expect(await machine.held()).toEqual(machine.ownedBy(addresses, {}));
  });

  it("K3: stay when the instance is deleted and made anew with another UID", async () => {
    const { machine, addresses } = await running();
    await machine.del(SOURCE);
    await machine.removePod(SOURCE);
    const before = machine.owner(NEXT)["vmi-uid"];
    await machine.renewInstance();
    expect(machine.owner(NEXT)["vmi-uid"]).not.toBe(before);
    await machine.putPod(NEXT);
    expect((await machine.add(NEXT)).addresses).toEqual(single(addresses));
    expect(await machine.held()).toEqual(machine.ownedBy(addresses, { active: machine.owner(NEXT) }));
  });

  it("K4: lose their owner and nothing else with a DEL while the machine lives", async () => {
    const { machine, addresses } = await running();
    expect(await machine.del(SOURCE)).toEqual(DONE);
    expect(await machine.held()).toEqual(machine.ownedBy(addresses, {}));
  });

  it("K5: stay while only the instance is being deleted and the machine lives", async () => {
    const { machine, addresses } = await running();
    await machine.deleting("virtualmachineinstances");
    expect(await machine.del(SOURCE)).toEqual(DONE);
    expect(await machine.held()).toEqual(machine.ownedBy(addresses, {}));
  });

  it("K6: are released with the last pod of a machine that is being deleted", async () => {
    const { machine } = await running();
    await machine.deleting("virtualmachines");
    expect(await machine.del(SOURCE)).toEqual(DONE);
    await world.expectNothingHeld();
  });

  it.each([
    ["K7: of a machine being deleted are released by the target's DEL when the source's came first", SOURCE, TARGET],
    ["K8: of a machine being deleted are released by the source's DEL when the target's came first", TARGET, SOURCE],
  ])("%s", async (_title, first, second) => {
    const { machine, addresses } = await running();
    await machine.putTarget();
    await machine.add(TARGET);
    await machine.deleting("virtualmachines");
    expect(await machine.del(first)).toEqual(DONE);
    expect(await machine.addresses()).toEqual(addresses);
    expect(await machine.del(second)).toEqual(DONE);
    await world.expectNothingHeld();
  });

  it("K9: are left alone by the DEL of a pod that is gone already", async () => {
    const { machine, addresses } = await running();
    await machine.removePod(SOURCE);
    expect(await machine.del(SOURCE)).toEqual(DONE);
    expect(await machine.addresses()).toEqual(addresses);
  });

  it("K10: of an instance without machine are released when that is being deleted", async () => {
    const { machine } = await running(false);
    await machine.deleting("virtualmachineinstances");
    expect(await machine.del(SOURCE)).toEqual(DONE);
    await world.expectNothingHeld();
  });

  it("K11: are refused to a pod whose instance is missing", async () => {
    const machine = await VirtualMachine.create(world);
    await machine.putPod(SOURCE);
    await machine.removeInstance();
    const { exit, msg } = await machine.add(SOURCE);
    expect(exit).toBe(1);
    expect(msg).toContain("failed to get VMI info");
    await world.expectNothingHeld();
  });

  it("K12: are refused to the target of a migration when machines keep no addresses", async () => {
    await world.configure({ kubeVirtVMAddressPersistence: "Disabled" });
    const machine = await VirtualMachine.create(world);
    await machine.putTarget();
    const { exit, msg } = await machine.add(TARGET);
    expect(exit).toBe(1);
    expect(msg).toContain("not allowed when KubeVirtVMAddressPersistence is disabled");
    expect(await machine.del(TARGET)).toEqual(DONE);
  });

  it("K13: are each pod's own when machines keep none", async () => {
    await world.configure({ kubeVirtVMAddressPersistence: "Disabled" });
    const machine = await VirtualMachine.create(world);
    for (const pod of [SOURCE, NEXT]) await machine.putPod(pod);
    const first = await machine.add(SOURCE, "c1");
    const second = await machine.add(NEXT, "c2");
    expect(first.addresses).not.toEqual(second.addresses);
    expect(await world.handles()).toEqual(["net1.c1", "net1.c2"]);
    expect(await world.heldBy(HANDLE)).toEqual([]);
    expect(await machine.del(SOURCE, "c1")).toEqual(DONE);
    expect(await world.handles()).toEqual(["net1.c2"]);
    expect(await machine.del(NEXT, "c2")).toEqual(DONE);
    await world.expectNothingHeld();
  });
});
