/**
 * Takes the addresses of an attachment from its record, its pod's annotations, or the IPAM plugin (C§2.5, C§2.6 step 2). They can be given
 * back until the caller decides to keep them.
 */
import { type Address, formatAddress, formatPrefix, hostPrefix, type Prefix } from "../lib/addresses/address.ts";
import { recordOfPod } from "../lib/datastore/kubernetes/pod-record.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { workloadHandleId } from "../lib/workload/identity.ts";
import type { AddCall, HeldAddresses } from "./call.ts";
import { withContext } from "./gates.ts";
import type { Host } from "./host.ts";
import { connectIpam, type Grant, HOLDS_ADDRESSES, type IpamSource, ipamInputForAdd, narrowAddress } from "./ipam-source.ts";
import { hasSibling, isRepeated, type Workload } from "./workload.ts";

/** The addresses of one attachment; disposing gives back what was taken, and nothing that the container held before. */
export interface Lease extends HeldAddresses, AsyncDisposable {
  /** They are those of the record: nothing was taken now. */
  readonly isKept: boolean;
  /** The pod itself named them, and no IPAM plugin knows them. */
  readonly isUngranted: boolean;
}

/** @throws TortieError `ipam-no-addresses`, `result-invalid`, and what the IPAM plugin says */
export async function takeAddresses(call: AddCall, workload: Workload, host: Host): Promise<Lease> {
  const held = call.held;
  if (held !== undefined) return leaseOf(held.addresses, held);
  const recorded = workload.recorded?.ipNetworks;
  if (recorded !== undefined && keepsAddresses(call, workload)) {
    call.log.info("container was added before: its addresses are kept", { addresses: recorded.join(",") });
    return leaseOf(recorded.map(narrowAddress), { isKept: true });
  }
  const { addresses } = workload.requests;
  if (addresses.kind === "without-ipam") return leaseOf(addresses.addresses.map(hostPrefix), { isUngranted: true });

  const input = await ipamInputForAdd(call, workload, host);
  const ipam = connectIpam(call.ipam, input, call, host, isRepeated(workload, call.identity.containerId));
  return addresses.kind === "requested"
    ? takeRequested(addresses.addresses, ipam, call, workload, host)
    : takeAny(ipam, call, workload, host);
}

/**
 * Tells whether the container keeps the addresses of its record (C§2.6 step 2): a plain one that was added before does, as tests of Calico
 * demand; every ADD of a Kubernetes pod takes new ones (C§2.3).
 */
export function keepsAddresses({ identity }: AddCall, workload: Workload): boolean {
  return identity.orchestrator === "cni" && isRepeated(workload, identity.containerId);
}

async function takeAny(ipam: IpamSource, call: AddCall, workload: Workload, host: Host): Promise<Lease> {
  await using undo = new AsyncDisposableStack();
  const { addresses, hostRoutes, routes, dns } = undo.use(await take(undefined, ipam, call, workload, host));
  if (addresses.length === 0) {
    throw new TortieError(
      "ipam-no-addresses",
      `IPAM plugin returned missing IP config: "${call.config.ipam.type}" gave no address for container ${call.request.containerId}`,
    );
  }
  return leaseOf(addresses, { hostRoutes, routes, dns, taken: undo.move() });
}

/**
 * Takes what the annotation `ipAddrs` requests: one ADD of the IPAM plugin for each address, all of them or none (C§2.5).
 *
 * An address that the pod's record has already is not taken from another workload: this container keeps its own, and from the pod's older
 * sandbox it is released by that sandbox's handle once the link that carried it is gone. Calico releases by address alone, whichever
 * workload has it then (C§12.2).
 */
async function takeRequested(
  requested: readonly Address[],
  ipam: IpamSource,
  call: AddCall,
  workload: Workload,
  host: Host,
): Promise<Lease> {
  await using undo = new AsyncDisposableStack();
  const addresses: Prefix[] = [];
  let hostRoutes = true;
  let isFirst = true;
  for (const address of requested) {
    if (isRecorded(address, workload) && (await keepsOrFrees(address, call, workload, host))) {
      addresses.push(hostPrefix(address));
      continue;
    }
    const taking = () => (isFirst ? take(address, ipam, call, workload, host) : ipam.add(address));
    const granted = undo.use(await withContext("error getting IP from IPAM", taking));
    isFirst = false;
    const [prefix] = granted.addresses;
    if (prefix === undefined) {
      throw new TortieError(
        "ipam-no-addresses",
        `IPAM plugin returned missing IP config: "${call.config.ipam.type}" did not give ${formatAddress(address)}`,
      );
    }
    hostRoutes &&= granted.hostRoutes;
    addresses.push(prefix);
  }
  return leaseOf(addresses, { hostRoutes, taken: undo.move() });
}

/** Runs the plugin's first ADD for this attachment: an earlier ADD that died may have left something behind. */
function take(address: Address | undefined, ipam: IpamSource, call: AddCall, workload: Workload, host: Host) {
  return isRepeated(workload, call.identity.containerId) ? ipam.add(address) : takeAfterInterruption(address, ipam, call, host);
}

/**
 * Runs the IPAM plugin's ADD for an attachment that has no record. An ADD that was killed half-way is undone by the next ADD of its
 * attachment, as by its DEL or by GC (design, invariant 5). Only a container that turns out to hold addresses is looked into, so that the
 * others pay no request for it.
 */
async function takeAfterInterruption(address: Address | undefined, ipam: IpamSource, call: AddCall, host: Host): Promise<Grant> {
  const first = await ipam.addFirst(address);
  if (first !== HOLDS_ADDRESSES) return first;
  if (!(await hasSibling(call, host)) && !(await isRecordedByNow(call, host))) await undoInterruptedAdd(ipam, call, host);
  return ipam.add(address);
}

/** Reads the record again, which may have come from memory: what a container uses must not be taken for what an interrupted ADD left. */
async function isRecordedByNow({ identity, request }: AddCall, host: Host): Promise<boolean> {
  const pod = await (await host.core())?.pod({ namespace: identity.namespace, name: identity.pod });
  return pod !== undefined && isRepeated({ recorded: recordOfPod(pod) }, request.containerId);
}

/**
 * Releases what an interrupted ADD took: addresses that the container of an attachment without record holds, unless another interface of
 * the container has a record. Then they may be that one's, and its DEL frees them.
 *
 * The link of the interrupted ADD goes first: it may carry the addresses (design, invariant 3).
 */
async function undoInterruptedAdd(ipam: IpamSource, call: AddCall, { dataplane }: Host): Promise<void> {
  const { log, hostInterface, owner } = call;
  log.info("an earlier ADD of this attachment was interrupted: what it took is given back first");
  await dataplane.remove({ hostInterface, owner });
  await ipam.run("DEL");
}

function isRecorded(address: Address, { recorded }: Workload): boolean {
  return recorded?.ipNetworks.includes(formatPrefix(hostPrefix(address))) === true;
}

/**
 * @param address one that the pod's record has
 * @returns whether this very container holds it; when its older sandbox does, that one has lost it now
 */
async function keepsOrFrees(address: Address, call: AddCall, { recorded }: Workload, host: Host): Promise<boolean> {
  const { identity, hostInterface, log, request } = call;
  const owner = recorded?.containerID ?? "";
  const handle = workloadHandleId(request.network, owner);
  const { allocator } = await host.ipam();
  const held = await allocator.attributesOf(address);
  // A user who may edit the pod can write another pod's container id into its record.
  const isOfThisPod = held?.activeOwner.namespace === identity.namespace && held.activeOwner.pod === identity.pod;
  if (held?.handle !== handle || !isOfThisPod) return false;
  if (owner === identity.containerId) return true;

  // Invariant 3: the older sandbox's link goes first.
  const link = { hostInterface, owner: call.owner, predecessors: [owner] };
  const { keptFor } = await host.dataplane.remove(link);
  if (keptFor !== undefined) {
    throw new TortieError("interface-exists", `file exists: host interface ${hostInterface} belongs to another attachment, "${keptFor}"`);
  }
  log.info(`${formatAddress(address)} goes from container ${owner} to its pod's newer sandbox`);
  const { error } = await allocator.releaseIps([{ address, block: held.block, handle }]);
  if (error !== undefined) {
    throw new TortieError("release-mismatch", `failed to release ipAddrs: ${formatAddress(address)} of ${owner}: ${messageOf(error)}`, {
      cause: error,
    });
  }
  return false;
}

interface LeaseFacts extends Partial<Omit<Lease, "addresses">> {
  readonly taken?: AsyncDisposable;
}

function leaseOf(addresses: readonly Prefix[], { taken, ...facts }: LeaseFacts): Lease {
  return {
    addresses,
    isKept: false,
    isUngranted: false,
    hostRoutes: true,
    routes: [],
    dns: {},
    ...facts,
    async [Symbol.asyncDispose]() {
      await taken?.[Symbol.asyncDispose]();
    },
  };
}
