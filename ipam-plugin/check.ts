/** Serves IPAM CHECK: every address of `prevResult` is still this container's (CNI 1.1.0; Calico verifies nothing, design §8). */
import { type Address, formatAddress, parsePrefix } from "../lib/addresses/address.ts";
import { parseResult } from "../lib/cni/result.ts";
import { TortieError } from "../lib/errors/errors.ts";
import type { IpamCall } from "./call.ts";
import type { IpamHost } from "./host.ts";
import { isLauncherPod, type Workload, workloadOf } from "./workload.ts";

/**
 * Changes nothing and takes no lock.
 *
 * @throws TortieError `container-unknown` when neither `prevResult` nor a handle knows the container, `check-failed` naming each
 * address that is not its own
 */
export async function ipamCheck(call: IpamCall, host: IpamHost): Promise<void> {
  const workload = workloadOf(call);
  const handles = await handlesOf(workload, call.request.network, host);
  refuseMissing(call, await heldBy(handles, host), `allocated to handle ${handles[0]} any more`);
}

/**
 * @param held addresses of the container, as canonical text
 * @param where the end of the message "… not <where>"
 * @throws TortieError as `ipamCheck`
 */
export function refuseMissing({ request, config }: Pick<IpamCall, "request" | "config">, held: ReadonlySet<string>, where: string): void {
  const { containerId, network } = request;
  if (config.prevResult === undefined) {
    if (held.size > 0) return;
    throw new TortieError("container-unknown", `container ${containerId} has no prevResult and holds no address in network ${network}`);
  }
  const { ips } = parseResult(config.prevResult, request.cniVersion ?? "0.1.0");
  const missing = ips.map(({ address }) => address).filter((text) => !held.has(canonical(text)));
  if (missing.length > 0) throw new TortieError("check-failed", `container ${containerId}: ${missing.join(", ")} not ${where}`);
}

/** Lists where the container's addresses may be, the likeliest first: its virtual machine's handle, and both forms of its own. */
async function handlesOf(workload: Workload, network: string, { datastore }: IpamHost): Promise<readonly [string, ...string[]]> {
  const { handle, legacyHandle, identity } = workload;
  if (!isLauncherPod(identity) || !datastore.traits.hasVirtualMachines) return [handle, legacyHandle];
  const { leftMachineOf } = await import("./kubevirt/machine.ts");
  const machine = await leftMachineOf(datastore.virtualMachines, { namespace: identity.namespace, name: identity.pod }, network);
  return machine === undefined ? [handle, legacyHandle] : [machine.handle, handle, legacyHandle];
}

/** Reads the addresses of the handles, as canonical text. */
async function heldBy(handles: readonly string[], { allocator }: IpamHost): Promise<ReadonlySet<string>> {
  const addresses: Address[] = [];
  for (const name of handles) {
    for (const held of (await allocator.addressesByHandle(name)) ?? []) addresses.push(held.address);
  }
  return new Set(addresses.map(formatAddress));
}

/** Returns the address without its prefix length; other text, which has no holder, as it is. */
function canonical(text: string): string {
  const prefix = parsePrefix(text);
  return prefix === undefined ? text : formatAddress(prefix.address);
}
