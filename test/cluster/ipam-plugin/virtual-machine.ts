/** A virtual machine as KubeVirt's objects tell of it, in the API server: the machine, its instance, and the pods that it runs in. */
import { type Answer, type HeldOwners, NODE } from "../../support/calico-cases.ts";
import type { StoredObject } from "../../support/kubernetes/test-cluster.ts";
import type { World } from "./world.ts";

const API = "kubevirt.io/v1";
const NAME = "test-vm";
const NAMESPACE = "default";
/** Keeps an object that is being deleted. */
const FINALIZER = "tortie.test/keep";

export const SOURCE = "virt-launcher-test-vm-source";
export const TARGET = "virt-launcher-test-vm-target";
export const NEXT = "virt-launcher-test-vm-next";
export const HANDLE = `net1.vmi.${NAMESPACE}.${NAME}`;

const BOTH = { assign_ipv4: "true", assign_ipv6: "true" };

export class VirtualMachine {
  readonly #world: World;
  readonly #name: string;
  readonly #machine: StoredObject | undefined;
  #instance: StoredObject;

  private constructor(world: World, machine: StoredObject | undefined, instance: StoredObject) {
    this.#world = world;
    this.#name = instance.metadata.name;
    this.#machine = machine;
    this.#instance = instance;
  }

  /** @param hasMachine false: an instance that no VirtualMachine owns */
  static async create(world: World, hasMachine = true, name = NAME): Promise<VirtualMachine> {
    const machine = hasMachine ? await world.cluster.apply(objectOf("VirtualMachine", name, [])) : undefined;
    return new VirtualMachine(world, machine, await world.cluster.apply(instanceOf(name, machine)));
  }

  /** The instance is deleted and made again, with another UID. */
  async renewInstance(): Promise<void> {
    await this.removeInstance();
    this.#instance = await this.#world.cluster.apply(instanceOf(this.#name, this.#machine));
  }

  async removeInstance(): Promise<void> {
    await this.#world.cluster.remove(API, "virtualmachineinstances", this.#name, NAMESPACE);
  }

  /** The object gets a deletionTimestamp, and stays. */
  async deleting(plural: "virtualmachines" | "virtualmachineinstances"): Promise<void> {
    const answer = await this.#world.cluster.api("DELETE", `/apis/${API}/namespaces/${NAMESPACE}/${plural}/${this.#name}`);
    expect(answer.status).toBe(200);
  }

  async putPod(name: string, labels: Readonly<Record<string, string>> = {}): Promise<void> {
    const { metadata } = this.#instance;
    const owner = { apiVersion: API, kind: "VirtualMachineInstance", name: metadata.name, uid: metadata.uid, controller: true };
    await this.#world.cluster.createPod(name, { node: NODE, labels, ownerReferences: [owner] });
  }

  /** A pod that a live migration starts. */
  async putTarget(): Promise<void> {
    await this.putPod(TARGET, { "kubevirt.io/migrationJobUID": "job-1" });
  }

  async removePod(name: string): Promise<void> {
    await this.#world.cluster.remove("v1", "pods", name, NAMESPACE);
  }

  add(pod: string, container = pod): Promise<Answer> {
    return this.#world.add({ pod, container, ipam: BOTH });
  }

  del(pod: string, container = pod): Promise<Answer> {
    return this.#world.del({ pod, container, ipam: BOTH });
  }

  held(): Promise<readonly HeldOwners[]> {
    return this.#world.heldBy(HANDLE);
  }

  async addresses(): Promise<readonly string[]> {
    return (await this.held()).map(({ address }) => address);
  }

  /** One entry for each of these addresses. */
  ownedBy(addresses: readonly string[], owners: Partial<Pick<HeldOwners, "active" | "alternate">>): readonly HeldOwners[] {
    return addresses.map((address) => ({ address, active: {}, alternate: {}, ...owners }));
  }

  /** What an owner holds, times left out. */
  owner(pod: string, more: Readonly<Record<string, string>> = {}): Readonly<Record<string, string>> {
    return {
      node: NODE,
      pod,
      namespace: NAMESPACE,
      "vmi-name": this.#name,
      "vmi-uid": this.#instance.metadata.uid,
      ...(this.#machine === undefined ? {} : { "vm-uid": this.#machine.metadata.uid }),
      ...more,
    };
  }
}

function instanceOf(name: string, machine: StoredObject | undefined) {
  const owner = machine && { apiVersion: API, kind: "VirtualMachine", name, uid: machine.metadata.uid, controller: true };
  return objectOf("VirtualMachineInstance", name, owner === undefined ? [] : [owner]);
}

function objectOf(kind: string, name: string, ownerReferences: readonly Readonly<Record<string, unknown>>[]) {
  return { apiVersion: API, kind, metadata: { name, namespace: NAMESPACE, finalizers: [FINALIZER], ownerReferences }, spec: {} };
}
