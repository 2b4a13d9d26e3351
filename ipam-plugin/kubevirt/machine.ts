/** Finds which virtual machine a launcher pod carries (I§1.9). ADD must know for certain; DEL makes do with what is still there. */

import type { VirtualMachines } from "../../lib/datastore/datastore.ts";
import { DatastoreError } from "../../lib/datastore/errors.ts";
import type { IpamConfiguration, OwnedObject } from "../../lib/datastore/resources.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import type { NamespacedName, OwnerReference } from "../../lib/kubernetes/objects.ts";
import type { Logger } from "../../lib/log/logger.ts";
import { sha256 } from "../../lib/system/hash.ts";
import type { OwnerAttributes } from "../allocator/types.ts";

const API_VERSION = "kubevirt.io/v1";
/** Pods that a live migration starts carry the migration's UID. */
const MIGRATION_LABEL = "kubevirt.io/migrationJobUID";

/** Describes the machine of a pod that is added. */
export interface Machine {
  readonly handle: string;
  /** `vmi-name`, `vmi-uid`, of a machine with a VirtualMachine `vm-uid`, of a migration's target `vmim-uid`. */
  readonly attributes: OwnerAttributes;
  readonly isMigrationTarget: boolean;
}

/** Describes the machine of a pod that goes. */
export interface LeftMachine {
  readonly handle: string;
  /** The machine is being deleted, or is gone: no other pod will take over its addresses. */
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
 * Finds the machine of a pod that goes, and never fails because something is gone or was made again: a pod that cannot be deleted would
 * stay for ever, since its objects do not come back (Calico: recordings vm-vmi-missing, vm-uid-mismatch).
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
  if (error instanceof DatastoreError) return new DatastoreError(error.failure, message, error, error.word);
  return error instanceof TortieError && error.word === "vm-unknown" ? unknown(message) : error;
}

/** Yes unless the configuration says no; one that cannot be read counts as yes. */
export async function persistsAddresses(configuration: () => Promise<IpamConfiguration>, log: Pick<Logger, "error">): Promise<boolean> {
  try {
    return (await configuration()).kubeVirtVMAddressPersistence !== "Disabled";
  } catch (error) {
    log.error(`cannot read kubeVirtVMAddressPersistence, virtual machines keep their addresses: ${messageOf(error)}`);
    return true;
  }
}

/** Limits the handle of a virtual machine, as Calico does (I§1.9). */
const MAX_LENGTH = 128;
/** Keeps 128 bits: two machines of one network do not meet by chance. */
const FEWEST_DIGITS = 32;

/**
 * Makes the handle, the same for every pod of a machine, for ever. A handle that would be too long has a hash in the place of what makes it so:
 *
 *   `<network>.vmi.<hash>`   SHA-256 of `<namespace>.<machine>` in hexadecimal digits, as many as fit, at least 32
 *   `<hash>.vmi.<hash>`      where the network's name leaves no room: of it the first 32 digits, then all 64 of the other
 *
 * Digits and dots make a legal name of a Kubernetes object, and no readable handle has a last part without a dot. Calico crashes on
 * such names, or writes one that starts with `_` and that Kubernetes refuses (recordings vm-long-name, vm-network-underscore), so no
 * stored handle of theirs can be missed.
 */
export function machineHandleId(network: string, namespace: string, machine: string): string {
  const suffix = `${namespace}.${machine}`;
  const readable = withMark(network, suffix);
  if (readable.length <= MAX_LENGTH) return readable;
  const digits = sha256(suffix);
  const hashed = withMark(network, digits).slice(0, MAX_LENGTH);
  if (hashed.length - withMark(network, "").length >= FEWEST_DIGITS) return hashed;
  return withMark(sha256(network).slice(0, FEWEST_DIGITS), digits);
}

function withMark(network: string, rest: string): string {
  return `${network}.vmi.${rest}`;
}
