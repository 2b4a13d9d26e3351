/** A virtual machine as KubeVirt's objects tell of it, on a node's local store: what an API server would hold (I§1.9). */
import { ipamResultOf } from "../../ipam-plugin/ipam-plugin.ts";
import type { Collection } from "../../lib/datastore/datastore.ts";
import type { AllocationAttribute, OwnedObject } from "../../lib/datastore/resources.ts";
import type { NamespacedName, OwnerReference } from "../../lib/kubernetes/objects.ts";
import { IpamNode } from "./ipam-node.ts";

const NAMESPACE = "shop";

export const DUAL = { ipam: { pools: [{ cidr: "10.40.0.0/24" }, { cidr: "fd80:40::/120" }], assign_ipv6: "true" } };

/** CNI_ARGS of a pod. */
export function argsOf(pod: string, more = ""): string {
  return `IgnoreUnknown=1;K8S_POD_NAMESPACE=${NAMESPACE};K8S_POD_NAME=${pod}${more}`;
}

export interface MachineFacts {
  /** Of the machine and of its instance. */
  readonly name?: string;
  /** false: an instance that nobody owns. */
  readonly hasMachine?: boolean;
}

export class VirtualMachine implements AsyncDisposable {
  readonly node: IpamNode;
  readonly name: string;
  readonly #hasMachine: boolean;
  #instanceUid = "vmi-uid-1";

  private constructor(node: IpamNode, { name = "test-vm", hasMachine = true }: MachineFacts) {
    this.node = node;
    this.name = name;
    this.#hasMachine = hasMachine;
  }

  /** With its objects stored, and no pod. */
  static async create(facts: MachineFacts = {}, node = new IpamNode(DUAL)): Promise<VirtualMachine> {
    const machine = new VirtualMachine(node, facts);
    if (machine.#hasMachine) await machine.putMachine({});
    await machine.putInstance({});
    return machine;
  }

  get handle(): string {
    return `net1.vmi.${NAMESPACE}.${this.name}`;
  }

  async putMachine(changes: Partial<OwnedObject>): Promise<void> {
    await this.#put(this.#objects.machines, { name: this.name, uid: "vm-uid-1", ...changes });
  }

  async putInstance(changes: Partial<OwnedObject>): Promise<void> {
    this.#instanceUid = changes.uid ?? this.#instanceUid;
    const owners = this.#hasMachine ? [owner("VirtualMachine", this.name, "vm-uid-1")] : [];
    await this.#put(this.#objects.instances, { name: this.name, uid: this.#instanceUid, owners, ...changes });
  }

  /** A launcher pod of the instance as it is now. */
  async putPod(name: string, changes: Partial<OwnedObject> = {}): Promise<void> {
    const owners = [owner("VirtualMachineInstance", this.name, this.#instanceUid)];
    await this.#put(this.#objects.pods, { name, uid: `${name}-uid`, owners, ...changes });
  }

  /** A pod that a live migration starts. */
  async putTarget(name: string): Promise<void> {
    await this.putPod(name, { labels: { "kubevirt.io/migrationJobUID": "job-1" } });
  }

  async remove(kind: "pods" | "instances" | "machines", name = this.name): Promise<void> {
    const key = { namespace: NAMESPACE, name };
    const there = await this.#objects[kind].get(key);
    if (there !== undefined) await this.#objects[kind].delete(key, there.revision);
  }

  /** The addresses of an ADD of this pod, as printed. */
  async add(pod: string, container = pod): Promise<{ readonly addresses: readonly string[]; readonly routes: readonly string[] }> {
    const result = ipamResultOf(await this.node.add({ container, args: argsOf(pod) }));
    return { addresses: result.ips.map(({ address }) => address), routes: result.routes.map(({ dst }) => dst) };
  }

  async del(pod: string, container = pod): Promise<void> {
    await this.node.del({ container, args: argsOf(pod) });
  }

  /** What the machine's handle holds, IPv4 first: address → owners, times left out. */
  async held(): Promise<readonly Held[]> {
    const held = (await this.node.ipam.allocator.addressesByHandle(this.handle)) ?? [];
    return held.map(({ activeOwner, alternateOwner }) => ({ active: timeless(activeOwner), alternate: timeless(alternateOwner) }));
  }

  /** The addresses of the machine's handle, without prefix lengths. */
  async addresses(): Promise<readonly string[]> {
    return (await this.node.allocated())[this.handle] ?? [];
  }

  /** What an owner holds: the pod and, of this machine, names and UIDs. */
  owner(pod: string, more: Readonly<Record<string, string>> = {}): Readonly<Record<string, string>> {
    return {
      node: "node-a",
      pod,
      namespace: NAMESPACE,
      "vmi-name": this.name,
      "vmi-uid": this.#instanceUid,
      ...(this.#hasMachine ? { "vm-uid": "vm-uid-1" } : {}),
      ...more,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.node[Symbol.asyncDispose]();
  }

  get #objects() {
    return this.node.datastore.virtualMachines;
  }

  async #put(
    collection: Collection<NamespacedName, OwnedObject>,
    changes: Partial<OwnedObject> & { readonly name: string },
  ): Promise<void> {
    const key = { namespace: NAMESPACE, name: changes.name };
    const value: OwnedObject = { namespace: NAMESPACE, uid: "", labels: {}, owners: [], isDeleting: false, ...changes };
    const there = await collection.get(key);
    if (there === undefined) await collection.create(key, value);
    else await collection.update(key, value, there.revision);
  }
}

export interface Held {
  readonly active: Readonly<Record<string, string>>;
  readonly alternate: Readonly<Record<string, string>>;
}

function owner(kind: string, name: string, uid: string): OwnerReference {
  return { apiVersion: "kubevirt.io/v1", kind, name, uid, isController: true };
}

function timeless(attributes: NonNullable<AllocationAttribute["activeOwner"]>): Readonly<Record<string, string>> {
  const { timestamp: _time, ...rest } = attributes;
  return rest;
}
