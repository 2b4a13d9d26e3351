/**
 * Serves IPAM ADD: takes the addresses of one attachment, both families or none (I§1.6, design invariant 6).
 * Not idempotent, as Calico's: a second ADD of the same container takes another address under the same handle.
 */
import { formatPrefix, type Prefix } from "../lib/addresses/address.ts";
import type { CniResult, CniRoute } from "../lib/cni/protocol.ts";
import { checkPolicyType } from "../lib/config/datastore-choice.ts";
import { assertNodeName } from "../lib/config/node-name.ts";
import { TortieError } from "../lib/errors/errors.ts";
import { isSubdomain } from "../lib/system/subdomain.ts";
import { checkIdentity } from "../lib/workload/identity.ts";
import { ADDRESS_KEYS, parseCniArgs, requestedAddresses } from "../lib/workload/requested.ts";
import { type Assign, assignAutomatic, assignRequested } from "./assign.ts";
import type { IpamCall } from "./call.ts";
import type { IpamHost } from "./host.ts";
import { ensurePools } from "./pools-from-config.ts";
import { isLauncherPod, type Workload, workloadOf } from "./workload.ts";

export interface AddOptions {
  /** The container should hold nothing yet: HandleExistsError, and nothing taken, when it does. */
  readonly mustBeNew?: boolean;
}

export interface IpamAddition {
  /** Has the prefix lengths that are printed, in the order of the result. */
  readonly addresses: readonly Prefix[];
  /** false for the target of a migration, whose host routes come when it takes over (C§2.3 S9). */
  readonly hasRoutes: boolean;
  /** Serves a caller whose later step fails: releases what this ADD took, and nothing that an earlier ADD of the container holds. */
  giveBack(): Promise<void>;
}

/**
 * @throws TortieError `arguments-invalid`, `identity-invalid`, `addresses-requested-invalid`, `netconf-value`, `pool-missing`,
 * `pool-conflict`, `addresses-exhausted`, what the allocator refuses, and for pods of virtual machines what kubevirt/add.ts does;
 * HandleExistsError. Nothing is kept then
 */
export async function ipamAdd(call: IpamCall, host: IpamHost, { mustBeNew = false }: AddOptions = {}): Promise<IpamAddition> {
  const { request, config } = call;
  const workload = workloadOf(call);
  checkAdd(workload, call, host);
  // Read a second time with other known keys: the names of pods need IgnoreUnknown here (I§1.4, recording args-09).
  const args = parseCniArgs(request.args, ADDRESS_KEYS);
  const requested = call.requested?.addresses ?? requestedAddresses(config, args);
  await ensurePools(config, host.datastore);
  const assign: Assign = (whom, addresses, families, isFirst) =>
    addresses.length > 0
      ? assignRequested(addresses, { workload: whom, mustBeNew: isFirst }, call, host)
      : assignAutomatic({ workload: whom, config: families, mustBeNew: isFirst }, call, host);
  if (isLauncherPod(workload.identity)) {
    const { assignToMachine } = await import("./kubevirt/add.ts");
    const assigned = await assignToMachine({ workload, requested }, assign, call, host);
    if (assigned !== undefined) return { addresses: assigned.prefixes, hasRoutes: assigned.hasRoutes, giveBack: assigned.giveBack };
  }
  const { prefixes, giveBack } = await assign(workload, requested, config, mustBeNew);
  return { addresses: prefixes, hasRoutes: true, giveBack };
}

/** Makes the result as it is printed. */
export function ipamResultOf(added: Pick<IpamAddition, "addresses" | "hasRoutes">): CniResult {
  const ips = added.addresses.map((address) => ({ address: formatPrefix(address) }));
  return { interfaces: [], ips, routes: printedRoutes(added), dns: {} };
}

/** Makes one route an address with the identical text, host bits kept (I§1.6 step 6). */
export function printedRoutes({ addresses, hasRoutes }: Pick<IpamAddition, "addresses" | "hasRoutes">): readonly CniRoute[] {
  return hasRoutes ? addresses.map((address) => ({ dst: formatPrefix(address) })) : [];
}

/** @throws TortieError `netconf-value`, `identity-invalid`, `nodename-invalid` */
function checkAdd(
  workload: Workload,
  { request, config, datastore: type, nodeName }: IpamCall,
  { datastore }: Pick<IpamHost, "datastore">,
): void {
  checkPolicyType(config, type);
  // Where endpoints have their own rules, the main plugin keeps to them: a handle takes any name there.
  if (datastore.traits.takesNames === "handles") checkIdentity(workload.identity, request.network, datastore.traits);
  if (datastore.traits.nodesAreObjects) checkNode(nodeName);
  assertNodeName(nodeName);
}

/** Refuses in Calico's words a name that neither a node nor an affinity can have (recordings node-name-capital, long-node-260). */
function checkNode(name: string): void {
  if (isSubdomain(name)) return;
  throw new TortieError("identity-invalid", `resource does not exist: Node(${name}) with error: nodes "${name}" not found`);
}
