/** What a virtual machine's pod is refused, what it is not, and pods that only look like one. */
import { DEFAULT_CONFIGURATION } from "../../../../ipam-plugin/allocator/operation.ts";
import { fresh } from "../../../support/fixtures.ts";
import { IpamNode } from "../../../support/ipam-node.ts";
import { remove } from "../../../support/stored.ts";
import { argsOf, DUAL, VirtualMachine } from "../../../support/virtual-machines.ts";

const SOURCE = "virt-launcher-test-vm-source";
const TARGET = "virt-launcher-test-vm-target";
const machine = fresh(() => VirtualMachine.create());

async function disablePersistence(): Promise<void> {
  const configuration = { ...DEFAULT_CONFIGURATION, kubeVirtVMAddressPersistence: "Disabled" } as const;
  await machine.node.datastore.ipamConfiguration.create("default", configuration);
}

describe("ADD of a virtual machine's pod", () => {
  it("K11: fails without the instance that owns it", async () => {
    await machine.putPod(SOURCE);
    await machine.remove("instances");
    await expect(machine.add(SOURCE)).rejects.toMatchObject({
      word: "vm-unknown",
      message: 'failed to get VMI info: failed to query VMI resource shop/test-vm: virtualmachineinstances.kubevirt.io "test-vm" not found',
    });
    expect(await machine.node.handles()).toEqual([]);
  });

  it.each([
    ["the pod", "pods", "failed to get VMI info: pod not found"],
    ["the machine", "machines", "failed to get VMI info: failed to query VM resource shop/test-vm"],
  ] as const)("fails without %s", async (_what, kind, message) => {
    await machine.putPod(SOURCE);
    await machine.remove(kind, kind === "pods" ? SOURCE : machine.name);
    await expect(machine.add(SOURCE)).rejects.toMatchObject({ word: "vm-unknown", message: expect.stringContaining(message) });
  });

  it("fails when the instance is another one than the pod's", async () => {
    await machine.putPod(SOURCE);
    await machine.putInstance({ uid: "vmi-uid-2" });
    await expect(machine.add(SOURCE)).rejects.toMatchObject({
      message: "failed to get VMI info: VMI UID mismatch: pod ownerReference has vmi-uid-1 but VMI resource has vmi-uid-2",
    });
  });

  it("K12: fails for the target of a migration when machines keep no addresses", async () => {
    await disablePersistence();
    await machine.putTarget(TARGET);
    await expect(machine.add(TARGET)).rejects.toMatchObject({
      word: "vm-migration-disabled",
      message: expect.stringContaining("live migration target pod is not allowed when KubeVirtVMAddressPersistence is disabled"),
    });
    await machine.del(TARGET);
  });

  it("fails for the target of a migration whose machine has no address, and its DEL succeeds (recording vm-target-alone)", async () => {
    await machine.putTarget(TARGET);
    await expect(machine.add(TARGET)).rejects.toMatchObject({
      word: "vm-addresses-missing",
      message: `migration target pod but no IP allocated to VM handle ${machine.handle}`,
    });
    await machine.del(TARGET);
    expect(await machine.node.handles()).toEqual([]);
  });

  it("K13: is an ordinary one when machines keep no addresses: each pod has its own, and gives it back", async () => {
    await disablePersistence();
    for (const pod of ["virt-launcher-a", "virt-launcher-b"]) await machine.putPod(pod);
    const first = await machine.add("virt-launcher-a", "c1");
    const second = await machine.add("virt-launcher-b", "c2");
    expect(first.addresses).not.toEqual(second.addresses);
    expect(first.routes).toEqual(first.addresses);
    expect(await machine.node.handles()).toEqual(["net1.c1", "net1.c2"]);
    const [block] = await machine.node.datastore.blocks.list();
    expect(block?.value.attributes[0]?.activeOwner).not.toHaveProperty("vmi-name");
    await machine.del("virt-launcher-a", "c1");
    expect(await machine.node.handles()).toEqual(["net1.c2"]);
    await machine.del("virt-launcher-b", "c2");
    expect(await machine.node.handles()).toEqual([]);
  });

  it("refuses another address than the machine keeps, and gives the one it keeps (golden notes, bug 5)", async () => {
    await machine.putPod(SOURCE);
    const add = (ip: string) => machine.node.addresses({ container: "c1", args: argsOf(SOURCE, `;IP=${ip}`) });
    expect(await add("10.40.0.9")).toEqual(["10.40.0.9/32"]);
    expect(await add("10.40.0.9")).toEqual(["10.40.0.9/32"]);
    const kept = "already has IP(s) allocated, cannot assign additional IP 10.40.0.10: the virtual machine keeps 10.40.0.9";
    await expect(add("10.40.0.10")).rejects.toMatchObject({ word: "handle-limit", message: expect.stringContaining(kept) });
    expect(await machine.node.allocated()).toEqual({ [machine.handle]: ["10.40.0.9"] });
  });

  it("refuses the target of a migration an address that its source has not", async () => {
    await machine.putPod(SOURCE);
    await machine.putTarget(TARGET);
    await machine.node.add({ container: "c1", args: argsOf(SOURCE, ";IP=10.40.0.9") });
    const add = machine.node.add({ container: "c2", args: argsOf(TARGET, ";IP=fd80:40::9") });
    await expect(add).rejects.toMatchObject({ word: "handle-limit" });
    expect(await machine.addresses()).toEqual(["10.40.0.9"]);
  });
});

describe("a pod that is named like a virtual machine's", () => {
  it.each([
    ["has no owner", []],
    ["is controlled by something else", [{ apiVersion: "apps/v1", kind: "ReplicaSet", name: "r", uid: "u", isController: true }]],
    [
      "is owned, but not controlled, by an instance",
      [{ apiVersion: "kubevirt.io/v1", kind: "VirtualMachineInstance", name: "test-vm", uid: "vmi-uid-1", isController: false }],
    ],
  ])("is an ordinary one when it %s", async (_what, owners) => {
    await machine.putPod(SOURCE, { owners });
    await machine.add(SOURCE, "c1");
    expect(await machine.node.handles()).toEqual(["net1.c1"]);
    await machine.del(SOURCE, "c1");
    expect(await machine.node.handles()).toEqual([]);
  });

  it("is an ordinary one on a store that knows of no virtual machine", async () => {
    await using node = new IpamNode(DUAL);
    expect(node.datastore.traits.hasVirtualMachines).toBe(false);
    await node.add({ container: "c1", args: argsOf(SOURCE) });
    expect(await node.handles()).toEqual(["net1.c1"]);
    await node.del({ container: "c1", args: argsOf(SOURCE) });
    expect(await node.handles()).toEqual([]);
  });

  it("costs no look-up when it has any other name", async () => {
    await machine.putPod("web-0");
    await machine.add("web-0", "c1");
    expect(await machine.node.handles()).toEqual(["net1.c1"]);
  });
});

describe("DEL of a virtual machine's pod", () => {
  it.each([
    ["the instance is gone and the machine lives", "vmi", true],
    ["the instance is another one", "uid", true],
    ["instance and machine are gone", "both", false],
  ] as const)("succeeds when %s", async (_what, change, isKept) => {
    await machine.putPod(SOURCE);
    await machine.add(SOURCE);
    if (change === "uid") await machine.putInstance({ uid: "vmi-uid-2" });
    else await machine.remove("instances");
    if (change === "both") await machine.remove("machines");
    await machine.del(SOURCE);
    expect((await machine.addresses()).length).toBe(isKept ? 2 : 0);
    for (const { active } of await machine.held()) expect(active).toEqual({});
  });

  it("keeps the addresses of an instance that outlives its machine", async () => {
    await machine.putPod(SOURCE);
    await machine.add(SOURCE);
    await machine.remove("machines");
    await machine.del(SOURCE);
    expect((await machine.addresses()).length).toBe(2);
  });

  it("releases what the pod got while machines kept no addresses, even when the pod is gone", async () => {
    for (const isGone of [false, true]) {
      await disablePersistence();
      await machine.putPod(SOURCE);
      await machine.add(SOURCE, "c1");
      await remove(machine.node.datastore.ipamConfiguration, "default");
      if (isGone) await machine.remove("pods", SOURCE);
      await machine.del(SOURCE, "c1");
      expect(await machine.node.handles()).toEqual([]);
    }
  });

  it("releases what the machine kept once machines keep no addresses any more", async () => {
    await machine.putPod(SOURCE);
    await machine.add(SOURCE);
    await disablePersistence();
    await machine.del(SOURCE);
    expect(await machine.node.handles()).toEqual([]);
  });
});
