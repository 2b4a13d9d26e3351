/**
 * Serves CNI ADD: gives one attachment its addresses, link, routes and record, or leaves nothing behind (design §2, invariant 5).
 * The agent's record is committed last. A failure up to then, or an abort by the caller (`call.signal`), undoes everything in reverse order.
 */
import type { AttachmentName } from "../dataplane/alias.ts";
import { type DesiredState, lacksPodEnd } from "../dataplane/desired-state.ts";
import { formatPrefix } from "../lib/addresses/address.ts";
import type { CniInterface, CniResult } from "../lib/cni/protocol.ts";
import { TortieError } from "../lib/errors/errors.ts";
import { withProfile } from "../lib/workload/endpoint.ts";
import { podLabelsOf } from "../lib/workload/requested.ts";
import { keepsAddresses, type Lease, takeAddresses } from "./addresses.ts";
import { type AddCall, openSandbox } from "./call.ts";
import { forget } from "./del.ts";
import { policyReady, readyForPods } from "./gates.ts";
import type { Host } from "./host.ts";
import { planAttachment } from "./plan.ts";
import { endpointResult, routersFor } from "./plan-endpoint-form.ts";
import { desiredStateOf } from "./plan-routed-form.ts";
import type { NewEndpoint } from "./policy.ts";
import { endpointOf, ensureProfile, readWorkload, type Workload, writeRecord } from "./workload.ts";

export async function add(call: AddCall, host: Host): Promise<CniResult> {
  const { journal, log, signal } = call;
  using sandbox = openSandbox(call);
  await using undo = new AsyncDisposableStack();
  const stillReady = await readyForPods(call, host);
  const workload = await readWorkload(call, host);
  await refuseSecondInterface(call, workload, host);
  const plan = planAttachment(call, workload, await routersFor(call, host));
  log.step("datastore");
  await stillReady();
  await journal.addresses(workload);
  const lease = undo.use(await takeAddresses(call, workload, host));
  log.step("ipam");
  signal.throwIfAborted();
  const desired = desiredStateOf(plan, lease.addresses, lease.hostRoutes);
  undo.use(await call.policy.admit(newEndpoint(call, workload, lease), signal));
  if (lease.isKept && !lacksPodEnd(await host.dataplane.inspect(sandbox, desired), desired)) {
    await call.policy.ready(call.hostInterface, signal);
    return keepAttachment(call, workload, lease, desired, host);
  }

  await journal.link(lease, desired);
  // Does the node first: its guard must be there before the container can send.
  if (call.forwardsOnNode) await host.dataplane.applyNode(await host.state(call, lease.addresses));
  log.step("node");
  const link = undo.use(await host.dataplane.apply(sandbox, desired));
  for (const warning of link.warnings) log.error(warning);
  log.step("dataplane");
  signal.throwIfAborted();
  const endpoint = endpointOf(call, workload, lease, link.podMac);
  // Comes before others read the record: what is taken back until then leaves nothing.
  await call.policy.ready(call.hostInterface, signal);
  log.step("policy");
  await journal.endpoint(link);
  await ensureProfile(call, host);
  await writeRecord(endpoint, workload, host);
  undo.defer(() => forget(call, host));
  log.step("endpoint");
  const result = resultOf(call, lease, link.podMac, desired);
  await journal.commit(result);
  undo.move(); // success: keep everything
  await policyReady(call, endpoint);
  return result;
}

/**
 * Refuses another interface of a container that has one of the same host end: the name of a host end is made of the workload's alone
 * (C§4.1), so that the second interface would take the place of the first. Calico lets it.
 * @throws TortieError `interface-exists`
 */
async function refuseSecondInterface(call: AddCall, workload: Workload, { dataplane }: Host): Promise<void> {
  const { owner, hostInterface } = call;
  const present = await dataplane.ownerOf(hostInterface);
  if (present === undefined || present.containerId !== owner.containerId) return;
  if (present.ifname === owner.ifname && (present.network === owner.network || keepsAddresses(call, workload))) return;
  const named = ({ ifname, network }: AttachmentName) => `interface ${ifname} on network ${network}`;
  throw new TortieError(
    "interface-exists",
    `container ${owner.containerId} has ${named(present)} already, by host interface ${hostInterface}, which ${named(owner)} would take over`,
  );
}

/** Keeps what a container has already (C§2.6 step 2): the kernel is not touched, and a further network's profile joins the record. */
async function keepAttachment(call: AddCall, workload: Workload, lease: Lease, desired: DesiredState, host: Host): Promise<CniResult> {
  const { record } = workload;
  await ensureProfile(call, host);
  if (record !== undefined) await writeRecord(withProfile(record, call.request.network), workload, host);
  const result = resultOf(call, lease, record?.mac, desired);
  await call.journal.commit(result);
  return result;
}

/** Describes the attachment to whoever enforces policy. */
function newEndpoint({ hostInterface, identity, args }: AddCall, workload: Workload, lease: Lease): NewEndpoint {
  const { namespace, pod } = identity;
  const { podUid, runtimePodUid } = workload;
  return {
    hostInterface,
    addresses: lease.addresses.map(({ address }) => address),
    pod: pod === "" ? undefined : { namespace, name: pod, uid: podUid, runtimeUid: runtimePodUid, labels: podLabelsOf(args) },
  };
}

/**
 * Makes the result: the two ends of the link, addresses without gateway, IPAM's routes and DNS as they came (C§5.1; form `endpoint`:
 * A§3.6).
 */
function resultOf(call: AddCall, { addresses, routes, dns }: Lease, mac: string | undefined, desired: DesiredState): CniResult {
  const { request, hostInterface, mtu } = call;
  const podEnd: CniInterface = {
    name: request.interfaceName,
    mac,
    ...(mtu === 0 ? {} : { mtu }),
    sandbox: request.netns,
  };
  return {
    interfaces: [{ name: hostInterface }, podEnd],
    ...(call.config.linkForm === "endpoint"
      ? { ...endpointResult(desired), dns: {} }
      : { ips: addresses.map((address) => ({ address: formatPrefix(address), interface: 1 })), routes, dns }),
  };
}
