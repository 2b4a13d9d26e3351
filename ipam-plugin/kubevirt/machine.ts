/** Which virtual machine a launcher pod carries (I§1.9). ADD must know for certain; DEL makes do with what is still there. */
import type { VirtualMachines } from "../../lib/datastore/datastore.ts";
import { DatastoreError, isDatastoreFailure } from "../../lib/datastore/errors.ts";
import type { OwnedObject } from "../../lib/datastore/resources.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import type { NamespacedName, OwnerReference } from "../../lib/kubernetes/objects.ts";
import type { OwnerAttributes } from "../allocator/allocator.ts";
import { machineHandleId } from "./handle.ts";

const API_VERSION = "kubevirt.io/v1";
/** Pods that a live migration starts carry the migration's UID. */
const MIGRATION_LABEL = "kubevirt.io/migrationJobUID";

/** The machine of a pod that is added. */
export interface Machine {
  readonly handle: string;
  /** `vmi-name`, `vmi-uid`, of a machine with a VirtualMachine `vm-uid`, of a migration's target `vmim-uid`. */
  readonly attributes: OwnerAttributes;
  readonly isMigrationTarget: boolean;
}

/** The machine of a pod that goes. */
export interface LeftMachine {
  readonly handle: string;
  /** The machine is being deleted, or is gone: nobody will come for its addresses. */
  readonly isEnding: boolean;
}

/**
 * @returns `undefined` for a pod without a VirtualMachineInstance
 * @throws TortieError `vm-unknown`, and DatastoreError: "failed to get VMI info: …"
 */
export async function machineOf(objects: VirtualMachines, pod: NamespacedName, network: string): Promise<Machine | undefined> {
  try {
    const stored = await objects.pods.get(pod);
    if (stored === undefined) throw unknown(`pod not found: ${pod.namespace}/${pod.name}`);
    const reference = instanceOwner(stored.value);
    return reference === undefined ? undefined : await machineBehind(objects, stored.value, reference, network);
  } catch (error) {
    throw withPrefix(error);
  }
}

/**
 * Never fails because something is gone or was made anew: a pod that cannot be deleted would stay for ever, since its objects do not
 * come back (Calico: recordings vm-vmi-missing, vm-uid-mismatch).
 *
 * @returns `undefined` for a pod without a VirtualMachineInstance, and when the pod is gone: only it knows its machine
 * @throws DatastoreError
 */
export async function leftMachineOf(objects: VirtualMachines, pod: NamespacedName, network: string): Promise<LeftMachine | undefined> {
  const stored = await objects.pods.get(pod);
  const reference = stored && instanceOwner(stored.value);
  if (reference === undefined) return undefined;
  const { namespace } = pod;
  const instance = await objects.instances.get({ namespace, name: reference.name });
  const owner = instance && machineOwner(instance.value);
  // KubeVirt names an instance after its machine, so that the name is known even when the instance has gone.
  const name = owner?.name ?? reference.name;
  const machine = instance !== undefined && owner === undefined ? undefined : await objects.machines.get({ namespace, name });
  const rest = machine ?? instance;
  return { handle: machineHandleId(network, namespace, name), isEnding: rest === undefined || rest.value.isDeleting };
}

async function machineBehind(objects: VirtualMachines, pod: OwnedObject, reference: OwnerReference, network: string): Promise<Machine> {
  const { namespace } = pod;
  const instance = await objects.instances.get({ namespace, name: reference.name });
  if (instance === undefined) throw missing("VMI", "virtualmachineinstances", namespace, reference.name);
  if (instance.value.uid !== reference.uid) {
    throw unknown(`VMI UID mismatch: pod ownerReference has ${reference.uid} but VMI resource has ${instance.value.uid}`);
  }
  const owner = machineOwner(instance.value);
  const machine = owner && (await objects.machines.get({ namespace, name: owner.name }));
  if (owner !== undefined && machine === undefined) throw missing("VM", "virtualmachines", namespace, owner.name);
  const migration = pod.labels[MIGRATION_LABEL] ?? "";
  return {
    handle: machineHandleId(network, namespace, owner?.name ?? reference.name),
    attributes: {
      "vmi-name": reference.name,
      "vmi-uid": reference.uid,
      ...(machine === undefined ? {} : { "vm-uid": machine.value.uid }),
      ...(migration === "" ? {} : { "vmim-uid": migration }),
    },
    isMigrationTarget: migration !== "",
  };
}

function instanceOwner({ owners }: OwnedObject): OwnerReference | undefined {
  return owners.find(
    ({ isController, apiVersion, kind }) => isController && apiVersion === API_VERSION && kind === "VirtualMachineInstance",
  );
}

function machineOwner({ owners }: OwnedObject): OwnerReference | undefined {
  return owners.find(({ apiVersion, kind }) => apiVersion === API_VERSION && kind === "VirtualMachine");
}

/** Calico's words, with those of the API server at the end. */
function missing(what: "VMI" | "VM", resource: string, namespace: string, name: string): TortieError {
  return unknown(`failed to query ${what} resource ${namespace}/${name}: ${resource}.kubevirt.io "${name}" not found`);
}

function unknown(message: string): TortieError {
  return new TortieError("vm-unknown", message);
}

function withPrefix(error: unknown): unknown {
  const message = `failed to get VMI info: ${messageOf(error)}`;
  if (isDatastoreFailure(error, "not-found", "already-exists", "conflict", "unauthorized", "unavailable", "invalid")) {
    return new DatastoreError(error.failure, message, error);
  }
  return error instanceof TortieError && error.word === "vm-unknown" ? unknown(message) : error;
}
