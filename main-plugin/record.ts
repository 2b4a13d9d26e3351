/** The record of an attachment: the last thing an ADD writes. */
import { formatPrefix } from "../lib/addresses/address.ts";
import { floatingNats } from "../lib/workload/annotations/floating-ips.ts";
import { buildEndpoint } from "../lib/workload/endpoint.ts";
import type { WorkloadEndpoint } from "../lib/workload/workload-endpoint.ts";
import type { Lease } from "./addresses.ts";
import type { AddCall } from "./call.ts";
import type { Node } from "./node.ts";
import type { Workload } from "./workload.ts";

/** The record of an attachment whose links are up (C§7.1). @throws TortieError `annotation-invalid` */
export function endpointOf(call: AddCall, workload: Workload, lease: Pick<Lease, "addresses">, mac: string): WorkloadEndpoint {
  const { config } = call;
  const addresses = lease.addresses.map(formatPrefix);
  return buildEndpoint({
    identity: workload.identity,
    network: config.name,
    policyType: config.policy.type,
    addresses,
    hostInterface: call.hostInterface,
    mac,
    mesosLabels: config.mesosLabels,
    ipNATs: floatingNats(workload.requests.floatingIps, addresses),
    allowedSourcePrefixes: workload.requests.allowedSourcePrefixes,
  });
}

/** Creates or replaces the record: the newest sandbox of a workload owns it. */
export async function writeRecord(endpoint: WorkloadEndpoint, { podUid, recorded }: Workload, node: Node): Promise<void> {
  const { records } = await node.datastore();
  await records.write(endpoint, { podUid, containerID: recorded?.containerID });
}
