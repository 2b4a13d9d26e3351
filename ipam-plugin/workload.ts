/** Says whose addresses they are: identity from CNI_ARGS, handle ids, and the attributes every address carries (I§1.4, I§1.6). */

import { identifyWorkload, legacyHandleId, type WorkloadIdentity, workloadHandleId } from "../lib/workload/identity.ts";
import { workloadEndpointName } from "../lib/workload/names.ts";
import { parseCniArgs } from "../lib/workload/requested.ts";
import type { OwnerAttributes, OwnerPreconditions } from "./allocator/types.ts";
import type { IpamCall } from "./call.ts";

export interface Workload {
  readonly identity: WorkloadIdentity;
  /** `<network>.<containerID>`. */
  readonly handle: string;
  /** Held the addresses of this workload in early Calico versions. */
  readonly legacyHandle: string;
  /** Has, for a virtual machine only, what its addresses carry beside the attributes of every address (I§1.9). */
  readonly machineAttributes?: OwnerAttributes;
}

/**
 * Resolves the workload of an ADD, DEL or CHECK.
 *
 * @throws TortieError `arguments-invalid`, `identity-invalid`: no endpoint could ever have such a name, so that DEL refuses it too
 * (recordings env-container-dash, args-12)
 */
export function workloadOf(call: Pick<IpamCall, "request" | "nodeName" | "identity">): Workload {
  const { containerId, network } = call.request;
  const identity = call.identity ?? identityOf(call);
  workloadEndpointName(identity);
  return { identity, handle: workloadHandleId(network, containerId), legacyHandle: legacyHandleId(identity) };
}

function identityOf({ request, nodeName }: Pick<IpamCall, "request" | "nodeName">): WorkloadIdentity {
  const { containerId, interfaceName, args } = request;
  return identifyWorkload({ containerId, interfaceName, args: parseCniArgs(args), node: nodeName });
}

/**
 * Tells whether a pod may carry a KubeVirt machine (I§1.9): by its name, so that no other pod costs a request or a line of code. The API
 * server has the last word.
 */
export function isLauncherPod({ orchestrator, pod }: WorkloadIdentity): boolean {
  return orchestrator === "k8s" && pod.startsWith("virt-launcher-");
}

/**
 * Says whose addresses a workload may release by its legacy handle: those that carry no attributes, as of the time when such handles were
 * made, and its own. Handles of containers (`<network>.<container id>`), virtual machines and tunnels can have the same text as a
 * legacy one, and what they hold is in use.
 */
export function mayHoldByLegacyHandle({ orchestrator, namespace, pod }: WorkloadIdentity): (owner: OwnerAttributes) => boolean {
  return (owner) => {
    if (Object.keys(owner).length === 0) return true;
    if (owner.type !== undefined || owner["vmi-name"] !== undefined) return false;
    if (orchestrator === "cni") return owner.namespace === undefined && owner.pod === undefined;
    return owner.namespace === namespace && owner.pod === pod;
  };
}

/** Makes the attributes that kube-controllers' GC, Felix and calicoctl look for (I§1.6 step 4, I§10.6). */
export function ownerAttributes(
  { identity, machineAttributes = {} }: Pick<Workload, "identity" | "machineAttributes">,
  nowNs: bigint,
): OwnerAttributes {
  const pod: Record<string, string> = identity.orchestrator === "k8s" ? { pod: identity.pod, namespace: identity.namespace } : {};
  return { node: identity.node, timestamp: goTimestamp(nowNs), ...pod, ...machineAttributes };
}

/**
 * Makes the condition for giving back an address that an ADD took: another pod of the same virtual machine may have taken it over since. Other
 * addresses have no second owner, and no condition.
 */
export function soleOwner(
  { machineAttributes }: Pick<Workload, "machineAttributes">,
  attributes: OwnerAttributes,
): { readonly owners?: OwnerPreconditions } {
  return machineAttributes === undefined ? {} : { owners: { active: attributes, alternate: {} } };
}

/** Writes a time as Go prints it: "2026-08-22 13:33:20.123456789 +0000 UTC", trailing zeros of the fraction left out (I§1.6 step 4). */
export function goTimestamp(nanosecondsSince1970: bigint): string {
  const milliseconds = Number(nanosecondsSince1970 / 1_000_000n);
  const [date = "", time = ""] = new Date(milliseconds).toISOString().split("T");
  let fraction = String(nanosecondsSince1970 % 1_000_000_000n).padStart(9, "0");
  while (fraction.endsWith("0")) fraction = fraction.slice(0, -1);
  return `${date} ${time.slice(0, 8)}${fraction === "" ? "" : `.${fraction}`} +0000 UTC`;
}

/** Reads what `goTimestamp` has written. @returns milliseconds since 1970; `undefined` for other text */
export function parseGoTimestamp(text: string | undefined): number | undefined {
  const [, date, time] = /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?) \+0000 UTC/.exec(text ?? "") ?? [];
  const then = date === undefined ? Number.NaN : Date.parse(`${date}T${time}Z`);
  return Number.isNaN(then) ? undefined : then;
}
