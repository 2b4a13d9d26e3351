/** What a recording says in words only, or not at all, and a player has to do: files, host names, holders of locks, changes of objects. */
import type { OwnerReference } from "../../lib/datastore/resources.ts";
import type { Suite } from "./recording.ts";
import type { StoredObject } from "./stored-object.ts";

export interface Supplement {
  readonly files?: Readonly<Record<string, string>>;
  readonly hostname?: string;
  /** The lock is held for this long, from before each call. */
  readonly lockHeldSeconds?: number;
  /** Put into the store with the objects of `before`. */
  readonly objects?: readonly StoredObject[];
  /** The deeds of the `change` step. */
  readonly put?: readonly StoredObject[];
  readonly remove?: readonly { readonly kind: string; readonly name: string }[];
}

/** The owner of instances of the ipam recordings. */
const MACHINE: OwnerReference = {
  apiVersion: "kubevirt.io/v1",
  kind: "VirtualMachine",
  name: "vm1",
  uid: "{{uid:virtualmachines/vm1}}",
  isController: true,
};

const INSTANCE_UID = "{{uid:virtualmachineinstances/vm1}}";

/** By scenario, "suite/name". */
export const SUPPLEMENTS: Readonly<Record<string, Supplement>> = {
  "ipam-kdd/nodename-file": { files: { "/var/lib/calico/nodename": "node-a" } },
  "ipam-kdd/nodename-file-newline": { files: { "/var/lib/calico/nodename": "node-a\n" } },
  "ipam-kdd/nodename-os": { hostname: "rec-host" },
  "ipam-kdd/lock-impossible": { files: { "/var/lib/calico/f": "" } },
  "ipam-kdd/lock-held": { lockHeldSeconds: 2 },
  "ipam-kdd/pools-not-allocatable": {
    objects: [pool("p4", "10.40.0.0/24", {}, { conditions: [{ type: "Allocatable", status: "False" }] })],
  },
  "ipam-kdd/node-selector-changed": { put: [pool("p4", "10.40.0.0/24", { nodeSelector: "zone == 'y'" })] },
  "ipam-kdd/pools-disabled-later": { put: [pool("p4", "10.40.0.0/24", { disabled: true }), pool("p5", "10.50.0.0/24")] },
  "ipam-kdd/vm-pod-missing": { remove: [{ kind: "Pod", name: "shop/virt-launcher-src" }] },
  "ipam-kdd/vm-pod-gone": { remove: [{ kind: "Pod", name: "shop/virt-launcher-src" }] },
  "ipam-kdd/vm-vmi-missing": { remove: [{ kind: "VirtualMachineInstance", name: "shop/vm1" }] },
  "ipam-kdd/vm-vmi-alone": { put: [deletedInstance([])] },
  "ipam-kdd/vm-deleting-two": { put: [deletedMachine(), deletedInstance([MACHINE])] },
  "ipam-etcd/nodename-file": { files: { "/var/lib/calico/nodename": "node-a" } },
  "ipam-etcd/lock-held": { lockHeldSeconds: 2 },
  "ipam-etcd/node-selector-changed": { put: [pool("p4", "10.40.0.0/24", { nodeSelector: "zone == 'y'" })] },
  "ipam-etcd/pools-disabled-later": { put: [pool("p4", "10.40.0.0/24", { disabled: true }), pool("p5", "10.50.0.0/24")] },
  "ipam-etcd/pools-deleted-later": { remove: [{ kind: "IPPool", name: "p4" }] },
};

export function supplementOf(suite: Suite, name: string): Supplement {
  return SUPPLEMENTS[`${suite}/${name}`] ?? {};
}

function deletedMachine(): StoredObject {
  return { ...deleted("VirtualMachine"), uid: MACHINE.uid };
}

function deletedInstance(owners: readonly OwnerReference[]): StoredObject {
  return { ...deleted("VirtualMachineInstance"), uid: INSTANCE_UID, owners };
}

function deleted(kind: string): StoredObject {
  return { kind, name: "shop/vm1", labels: {}, annotations: {}, deleting: true, spec: {}, status: {} };
}

/** A pool as the ipam recordings have them. */
function pool(name: string, cidr: string, spec: StoredObject["spec"] = {}, status: StoredObject["status"] = {}): StoredObject {
  const usual = { blockSize: 26, nodeSelector: "all()", allowedUses: ["Workload", "Tunnel"], assignmentMode: "Automatic" };
  return { kind: "IPPool", name, labels: {}, annotations: {}, deleting: false, spec: { cidr, ...usual, ...spec }, status };
}
