/**
 * Serves CNI CHECK: compares the kernel, the addresses and the endpoint's record with what ADD left, and names every difference.
 *
 * CRI-O asks after every ADD and ends a sandbox whose CHECK fails, so what cannot be compared counts as right: a record in a cluster
 * that does not answer now. The kernel shows what a container needs (invariant 12).
 */
import type { RecordedLink } from "../dataplane/dataplane.ts";
import { formatPrefix } from "../lib/addresses/address.ts";
import type { CniRequest, CniResult } from "../lib/cni/protocol.ts";
import { parseResult } from "../lib/cni/result.ts";
import type { RecordedAddresses } from "../lib/datastore/datastore.ts";
import { DatastoreError, inTime, isDatastoreFailure } from "../lib/datastore/errors.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { excerpt } from "../lib/log/format.ts";
import { type AddCall, openSandbox } from "./call.ts";
import type { Host } from "./host.ts";
import { connectIpam, ipamInput, narrowAddress, wantsHostRoutes } from "./ipam-source.ts";
import { planAttachment } from "./plan.ts";
import { routersFor } from "./plan-endpoint-form.ts";
import { desiredStateOf } from "./plan-routed-form.ts";
import { readWorkload, type Workload } from "./workload.ts";

/** A record that is annotations says what the pod's owner likes, in up to 256 KiB. */
const SHOWN_OF_DIFFERENCES = 2000;

export async function check(call: AddCall, host: Host): Promise<void> {
  const { request, log } = call;
  const read = await ifAnswered("record and addresses", call, () => inTime(readWorkload(call, host)));
  const workload = read instanceof DatastoreError ? undefined : read;
  const previous = previousResult(call, read);
  const addresses = previous.ips.map((ip) => narrowAddress(ip.address));
  // The annotations that name addresses leave the result without routes (C§2.5).
  const isFromIpam = workload === undefined || workload.requests.addresses.kind === "ipam";
  const desired = desiredStateOf(
    planAttachment(call, workload, await routersFor(call, host)),
    addresses,
    !isFromIpam || wantsHostRoutes(call, previous.routes),
  );
  using sandbox = openSandbox(call);
  const differences = (await host.dataplane.inspect(sandbox, desired, podEndOf(previous, request))).map(
    ({ side, object, wanted, found }) => `${side} ${object}: wanted ${wanted}, found ${found}`,
  );
  if (workload !== undefined) {
    differences.push(...recordDifferences(workload.recorded, request.containerId, addresses.map(formatPrefix)));
  }
  differences.push(...call.policy.differences(call.hostInterface));
  log.step("inspect");
  if (differences.length > 0) {
    throw new TortieError(
      "check-failed",
      `container ${request.containerId}, interface ${request.interfaceName}: ${excerpt(differences.join("; "), SHOWN_OF_DIFFERENCES)}`,
    );
  }
  // Addresses without IPAM are not IPAM's to know.
  if (workload === undefined || workload.requests.addresses.kind === "without-ipam") return;
  await ifAnswered("addresses", call, () => connectIpam(call.ipam, ipamInput(call), call, host).run("CHECK"));
  log.step("ipam");
}

/** @returns the failure where the datastore gives no answer now, or none of a datastore */
async function ifAnswered<T>(what: string, { log }: AddCall, ask: () => Promise<T>): Promise<T | DatastoreError> {
  try {
    return await ask();
  } catch (error) {
    if (!isDatastoreFailure(error, "unavailable", "unauthorized")) throw error;
    log.error(`not compared: ${what}: ${messageOf(error)}`);
    return error;
  }
}

/**
 * Reads what the result of the whole chain says about the pod end. Its MTU is left out: the plugin `tuning` changes that of the link and
 * not that of the result.
 */
function podEndOf(previous: CniResult, { interfaceName }: CniRequest): RecordedLink {
  return { mac: previous.interfaces.find(({ name, sandbox }) => name === interfaceName && sandbox !== undefined)?.mac };
}

/**
 * Reads `prevResult`, which runtimes must send, or else what the record says.
 * @throws DatastoreError where the record could not be read; TortieError `container-unknown` where there is none
 */
function previousResult({ request, config }: AddCall, read: Workload | DatastoreError): CniResult {
  if (config.prevResult !== undefined) return parseResult(config.prevResult, request.cniVersion, "prevResult");
  if (read instanceof DatastoreError) throw read;
  if (read.recorded?.containerID === request.containerId) {
    return { interfaces: [], ips: read.recorded.ipNetworks.map((address) => ({ address })), routes: [], dns: {} };
  }
  throw new TortieError("container-unknown", `container ${request.containerId} has no prevResult and no endpoint: nothing to compare with`);
}

function recordDifferences(known: RecordedAddresses | undefined, containerId: string, addresses: readonly string[]): string[] {
  if (known === undefined) return [`endpoint record: wanted container ${containerId}, found none`];
  if (known.containerID !== containerId) return [`endpoint record: wanted container ${containerId}, found container ${known.containerID}`];
  const [wanted, found] = [addresses.join(","), known.ipNetworks.join(",")];
  // A result of form `endpoint` has another order than the record.
  const isSame = [...addresses].sort().join(",") === [...known.ipNetworks].sort().join(",");
  return isSame ? [] : [`endpoint record: wanted addresses ${wanted}, found ${found}`];
}
