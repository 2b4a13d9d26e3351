/**
 * Serves `ipam.type: tortie-host-scope`: the verbs of IPAM on the node's own ranges (A§4, A§11.1). They run inside the main plugin or the
 * agent; there is no executable of that name. Apart from ADD and STATUS none of them needs to know the ranges.
 */
import { type Address, type Family, formatAddress, hostPrefix, type Prefix } from "../../lib/addresses/address.ts";
import type { CniCommand } from "../../lib/cni/protocol.ts";
import { attachmentsToKeep } from "../../lib/config/decode.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { isJsonObject } from "../../lib/json/value.ts";
import { parseCniArgs, requestedAddresses } from "../../lib/workload/requested.ts";
import type { IpamCall } from "../call.ts";
import { refuseMissing } from "../check.ts";
import { unavailable } from "../status.ts";
import { type AttachmentOwner, type GrantFile, isSameOwner } from "./grant-directory.ts";
import type { HostScope } from "./host-scope.ts";
import { chooseOffset, formatRange } from "./range.ts";

type HostScopeCall = Pick<IpamCall, "request" | "config" | "log" | "identity" | "requested" | "collection">;

export interface HostScopeAddition {
  /** Single hosts, IPv4 first, as in a result of the blocks mode. */
  readonly addresses: readonly Prefix[];
  /** Releases what this ADD took, and nothing that the attachment held before. */
  giveBack(): Promise<void>;
}

/**
 * Grants the addresses that are asked for, or one of each family that the node has and the configuration does not switch off: all or none.
 * @throws TortieError as `HostScope.grant`, `addresses-requested-invalid`
 */
export async function hostScopeAdd(call: HostScopeCall, hostScope: HostScope): Promise<HostScopeAddition> {
  const owner = attachmentOf(call);
  const addresses = call.requested?.addresses ?? requestedAddresses(call.config, parseCniArgs(call.request.args));
  const granted = await hostScope.grant(addresses.length > 0 ? { owner, addresses } : { owner, families: familiesFor(call, hostScope) });
  return {
    addresses: granted.map(({ address }) => hostPrefix(address)).sort((one, other) => one.address.family - other.address.family),
    giveBack: async () => {
      for (const one of granted) await hostScope.giveBack(one);
    },
  };
}

/** Tells whether the attachment holds an address already. */
export async function holdsAddresses(call: HostScopeCall, hostScope: HostScope): Promise<boolean> {
  return (await hostScope.heldBy(attachmentOf(call))).length > 0;
}

/** Serves the verbs that return nothing. @throws TortieError of CHECK `container-unknown`, `check-failed` */
export async function hostScopeRun(
  command: Exclude<CniCommand, "ADD" | "VERSION">,
  call: HostScopeCall,
  hostScope: HostScope,
): Promise<void> {
  switch (command) {
    case "DEL": {
      const owner = attachmentOf(call);
      await hostScope.releaseAll((grant) => isSameOwner(grant.owner, owner));
      return;
    }
    case "CHECK": {
      // Changes nothing and takes no lock.
      const held = await hostScope.heldBy(attachmentOf(call));
      return refuseMissing(call, new Set(held.map(({ address }) => formatAddress(address))), "granted to it any more");
    }
    case "STATUS":
      return status(call, hostScope);
    case "GC":
      return gc(call, hostScope);
  }
}

function attachmentOf({ request, identity }: HostScopeCall): AttachmentOwner {
  const { network, containerId, interfaceName: ifname } = request;
  const pod = identity === undefined || identity.pod === "" ? {} : { pod: `${identity.namespace}/${identity.pod}` };
  return { kind: "attachment", network, containerId, ifname, ...pod };
}

/** Lists every family that the node has, but for those of `ipam.assign_ipv4` and `assign_ipv6` that are "false". */
function familiesFor({ request }: HostScopeCall, hostScope: HostScope): readonly Family[] {
  const { ipam } = request.netconf;
  const isWanted = (family: Family) => !isJsonObject(ipam) || ipam[`assign_ipv${family}`] !== "false";
  const families = hostScope.ranges().ranges.map(({ family }) => family);
  const wanted = families.filter(isWanted);
  if (wanted.length > 0) return wanted;
  throw new TortieError("family-disabled", "this node has no range of a family that the configuration switches on");
}

/**
 * Serves STATUS. Without a range every ADD fails; a full range is a line of the log, since the pods that run need no new address (design,
 * invariant 12).
 * @throws TortieError `status-unavailable`
 */
async function status({ log }: HostScopeCall, hostScope: HostScope): Promise<void> {
  try {
    for (const range of hostScope.ranges().ranges) {
      const isFull = chooseOffset(await hostScope.occupancy(range), "contiguous", Math.random) === undefined;
      if (isFull) log.error(`an ADD would fail: range is full: ${formatRange(range)}`);
    }
  } catch (error) {
    throw unavailable("host scope", error);
  }
}

/**
 * Serves GC, of this network only; what clients of the REST API and the node itself hold is theirs to release.
 * @throws TortieError `attachments-missing`
 */
async function gc({ request, config, log, collection }: HostScopeCall, hostScope: HostScope): Promise<void> {
  const kept = new Set(attachmentsToKeep(config).map(({ containerID, ifname }) => `${containerID} ${ifname}`));
  // Asked once more under the lock of the grants: an ADD that came meanwhile has its own grant only after that.
  const isInUse = ({ containerId, ifname }: AttachmentOwner) =>
    collection?.inUse().some((one) => one.containerID === containerId && one.ifname === ifname) ?? false;
  const isOrphan = ({ owner }: GrantFile) =>
    owner.kind === "attachment" &&
    owner.network === request.network &&
    !kept.has(`${owner.containerId} ${owner.ifname}`) &&
    !isInUse(owner);
  const freed: readonly Address[] = await hostScope.releaseAll(isOrphan);
  if (freed.length > 0) log.info(`released ${freed.map(formatAddress).join(", ")}, which the runtime does not know any more`);
}
