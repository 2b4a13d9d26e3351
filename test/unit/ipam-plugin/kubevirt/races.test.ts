/** Pods of one virtual machine on two nodes at once, at every interleaving that a seed yields, and with a node dying at every call. */
import { Allocator } from "../../../../ipam-plugin/allocator/allocator.ts";
import type { OwnedObject } from "../../../../lib/datastore/resources.ts";
import { freeLock } from "../../../support/free-lock.ts";
import { IpamNode } from "../../../support/ipam-node.ts";
import { type Fate, type MemoryDatastore, MemoryStore } from "../../../support/memory-datastore.ts";
import { Scheduler, type SchedulerOptions } from "../../../support/scheduler.ts";
import { change } from "../../../support/stored.ts";
import { argsOf, DUAL } from "../../../support/virtual-machines.ts";

const SEEDS = 100;
const POD_A = "virt-launcher-a";
const POD_B = "virt-launcher-b";
const HANDLE = "net1.vmi.shop.vm";
const API_VERSION = "kubevirt.io/v1";

async function putObjects(store: MemoryDatastore, isTarget: boolean): Promise<void> {
  const { pods, instances, machines } = store.virtualMachines;
  const object = (changes: Partial<OwnedObject> & { readonly name: string }): OwnedObject => ({
    namespace: "shop",
    uid: changes.name,
    labels: {},
    owners: [],
    isDeleting: false,
    ...changes,
  });
  const owners = (kind: string) => [{ apiVersion: API_VERSION, kind, name: "vm", uid: "vm", isController: true }];
  const key = (name: string) => ({ namespace: "shop", name });
  await machines.create(key("vm"), object({ name: "vm" }));
  await instances.create(key("vm"), object({ name: "vm", owners: owners("VirtualMachine") }));
  await pods.create(key(POD_A), object({ name: POD_A, owners: owners("VirtualMachineInstance") }));
  const labels: Record<string, string> = isTarget ? { "kubevirt.io/migrationJobUID": "job-1" } : {};
  await pods.create(key(POD_B), object({ name: POD_B, owners: owners("VirtualMachineInstance"), labels }));
}

async function deleteMachine(store: MemoryDatastore): Promise<void> {
  await change(store.virtualMachines.machines, { namespace: "shop", name: "vm" }, { isDeleting: true });
}

/** A node whose every call to the store is the scheduler's. */
function nodeOn(store: MemoryStore, name: string, { gate, clock, random, sleep }: Scheduler): IpamNode {
  const datastore = store.connect(name, gate);
  const allocator = new Allocator({ datastore, clock, random, sleep });
  const deadline = () => new AbortController().signal;
  return new IpamNode(DUAL, { datastore, clock, allocator, lock: freeLock, deadline }, { nodeName: name });
}

/** Two nodes of a store that has a machine with its pods. @param isTarget whether a migration started the second pod */
async function twoNodes(options: SchedulerOptions, isTarget = false) {
  const store = new MemoryStore();
  const view = store.connect();
  await putObjects(view, isTarget);
  const scheduler = new Scheduler(options);
  const [a, b] = [nodeOn(store, "node-a", scheduler), nodeOn(store, "node-b", scheduler)];
  const end = async () => void (await Promise.all([a[Symbol.asyncDispose](), b[Symbol.asyncDispose]()]));
  return { view, scheduler, a, b, [Symbol.asyncDispose]: end };
}

/** The machine's addresses by block, after what every block and the handle must always agree on. */
async function heldIn(store: MemoryDatastore): Promise<readonly { readonly active: string; readonly alternate: string }[]> {
  const handle = await store.handles.get(HANDLE);
  const found: { active: string; alternate: string }[] = [];
  for (const { value: block } of await store.blocks.list()) {
    const mine = block.allocations.filter((index) => index !== null && block.attributes[index]?.handleId === HANDLE);
    expect(handle?.value.blocks[block.cidr] ?? 0).toBe(mine.length);
    for (const index of mine) {
      const attribute = block.attributes[index ?? 0];
      found.push({ active: attribute?.activeOwner?.pod ?? "", alternate: attribute?.alternateOwner?.pod ?? "" });
    }
  }
  return found;
}

const seeds = Array.from({ length: SEEDS }, (_, seed) => seed);

describe("two pods of one virtual machine", () => {
  it("get the same two addresses, and one of them is recorded as their owner, when they are added at once", async () => {
    for (const seed of seeds) {
      await using nodes = await twoNodes({ seed });
      const { view, scheduler, a, b } = nodes;
      const endings = await scheduler.run([
        () => a.addresses({ container: "a", args: argsOf(POD_A) }),
        () => b.addresses({ container: "b", args: argsOf(POD_B) }),
      ]);
      const [first, second] = endings.map((ending) => {
        if (ending.state !== "done") throw new Error(`seed ${seed}: ${JSON.stringify(ending)}`);
        return ending.value.map((address) => address.replace(/\/.*/, ""));
      });
      expect({ seed, addresses: first }).toEqual({ seed, addresses: second });
      const held = await heldIn(view);
      expect({ seed, count: held.length }).toEqual({ seed, count: 2 });
      for (const { active } of held) expect([POD_A, POD_B]).toContain(active);
    }
  });

  it("leave nothing of a machine that is being deleted, when they are deleted at once", async () => {
    for (const seed of seeds) {
      await using nodes = await twoNodes({ seed }, true);
      const { view, scheduler, a, b } = nodes;
      await scheduler.run([() => a.add({ container: "a", args: argsOf(POD_A) })]);
      await scheduler.run([() => b.add({ container: "b", args: argsOf(POD_B) })]);
      await deleteMachine(view);
      const endings = await scheduler.run([
        () => a.del({ container: "a", args: argsOf(POD_A) }),
        () => b.del({ container: "b", args: argsOf(POD_B) }),
      ]);
      expect({ seed, states: endings.map(({ state }) => state) }).toEqual({ seed, states: ["done", "done"] });
      expect({ seed, held: await heldIn(view), handles: await view.handles.list() }).toEqual({ seed, held: [], handles: [] });
    }
  });

  it("do not have an address released that the second has taken over, when the first is deleted at the same time", async () => {
    for (const seed of seeds) {
      await using nodes = await twoNodes({ seed });
      const { view, scheduler, a, b } = nodes;
      await deleteMachine(view);
      await scheduler.run([() => a.add({ container: "a", args: argsOf(POD_A) })]);
      const [, added] = await scheduler.run<readonly string[] | undefined>([
        () => a.del({ container: "a", args: argsOf(POD_A) }).then(() => undefined),
        () => b.addresses({ container: "b", args: argsOf(POD_B) }),
      ]);
      if (added?.state !== "done") throw new Error(`seed ${seed}: ${JSON.stringify(added)}`);
      expect({ seed, given: added.value?.length }).toEqual({ seed, given: 2 });
      expect({ seed, owners: (await heldIn(view)).map(({ active }) => active) }).toEqual({ seed, owners: [POD_B, POD_B] });
    }
  });

  it("lose nothing to a node that dies at any call of its first ADD: the next pod gets both families", async () => {
    for (const fate of ["crash", "crash-after"] as const) {
      for (let call = 1; ; call++) {
        let calls = 0;
        const fateOf = ({ client }: { readonly client: string }): Fate => {
          if (client === "node-a") calls++;
          return client === "node-a" && calls === call ? fate : "proceed";
        };
        await using nodes = await twoNodes({ seed: call, fateOf });
        const { view, scheduler, a, b } = nodes;
        const [ending] = await scheduler.run([() => a.add({ container: "a", args: argsOf(POD_A) })]);
        const [next] = await scheduler.run([() => b.addresses({ container: "b", args: argsOf(POD_B) })]);
        if (next?.state !== "done") throw new Error(`${fate} at call ${call}: ${JSON.stringify(next)}`);
        expect(next.value.length).toBe(2);
        const held = await heldIn(view);
        expect(held.map(({ active }) => active)).toEqual([POD_B, POD_B]);
        if (ending?.state === "done") {
          expect(call).toBeGreaterThan(10);
          break;
        }
      }
    }
  });
});

describe("an ADD whose caller fails later", () => {
  it("gives back what it took, and restores the owners that it replaced", async () => {
    await using nodes = await twoNodes({ seed: 1 });
    const { view, scheduler, a } = nodes;
    const run = async <T>(task: () => Promise<T>): Promise<T> => {
      const [ending] = await scheduler.run([task]);
      if (ending?.state !== "done") throw new Error(JSON.stringify(ending));
      return ending.value;
    };
    const undone = await run(() => a.add({ container: "a", args: argsOf(POD_A) }));
    await run(() => undone.giveBack());
    expect(await heldIn(view)).toEqual([]);

    await run(() => a.add({ container: "a", args: argsOf(POD_A) }));
    const second = await run(() => a.add({ container: "b", args: argsOf(POD_B) }));
    expect((await heldIn(view)).map(({ active }) => active)).toEqual([POD_B, POD_B]);
    await run(() => second.giveBack());
    expect((await heldIn(view)).map(({ active }) => active)).toEqual([POD_A, POD_A]);
  });

  it("leaves what another pod of the machine has taken over since", async () => {
    await using nodes = await twoNodes({ seed: 1 }, true);
    const { view, scheduler, a } = nodes;
    const [ending] = await scheduler.run([
      async () => {
        const first = await a.add({ container: "a", args: argsOf(POD_A) });
        await a.add({ container: "b", args: argsOf(POD_B) });
        await first.giveBack();
      },
    ]);
    expect(ending?.state).toBe("done");
    expect((await heldIn(view)).map(({ alternate }) => alternate)).toEqual([POD_B, POD_B]);
  });
});
