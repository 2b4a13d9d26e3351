/** CNI CHECK: compare the kernel, the addresses and the endpoint's record with what ADD left, and name every difference. */

import type { CniRequest, CniResult } from "../../lib/cni/protocol.ts";
import { parseResult } from "../../lib/cni/result.ts";
import type { NetworkConfig } from "../../lib/config/network-config.ts";
import type { WorkloadEndpoint } from "../../lib/datastore/resources.ts";
import { TortieError } from "../../lib/errors.ts";
import { refuseOwnNamespace } from "../own-namespace.ts";
import { wantsHostRoutes } from "./add.ts";
import { identifyNewAttachment } from "./attachment.ts";
import { chooseIpam } from "./ipam.ts";
import { ipamStdinForAdd, ipamStdinForDel } from "./ipam-stdin.ts";
import { desiredStateOf, narrowAddress, planAttachment } from "./plan.ts";
import type { Services } from "./services.ts";

export async function check(request: CniRequest, config: NetworkConfig, services: Services): Promise<void> {
  const attachment = identifyNewAttachment(request, config, services.env);
  services.dataplane.verifySandbox(request.netns);
  refuseOwnNamespace(request);
  const ipam = chooseIpam(request, config, ipamStdinForDel(request), services);
  const plan = planAttachment(config, {
    ...attachment,
    customDestinations: ipamStdinForAdd(request).destinations,
    forwardOnNode: services.isStandalone,
  });
  const record = (await (await services.datastore()).endpoints.get(attachment.endpointKey))?.value;
  const previous = previousResult(request, config, record);

  const addresses = previous.ips.map((ip) => narrowAddress(ip.address));
  const mac = previous.interfaces.find((one) => one.name === request.interfaceName && one.sandbox !== undefined)?.mac ?? plan.mac;
  const desired = desiredStateOf({ ...plan, mac }, addresses, wantsHostRoutes(previous, ipam, services));
  const differences = (await services.dataplane.inspect(desired)).map(
    ({ side, object, wanted, found }) => `${side} ${object}: wanted ${wanted}, found ${found}`,
  );
  differences.push(...recordDifferences(record, request.containerId, desired.pod.addresses));
  services.log.step("inspect");
  if (differences.length > 0) {
    throw new TortieError(
      "check-failed",
      `container ${request.containerId}, interface ${request.interfaceName}: ${differences.join("; ")}`,
    );
  }
  await ipam.run("CHECK");
  services.log.step("ipam");
}

/** `prevResult`, which runtimes must send; without it, what the record says. */
function previousResult(request: CniRequest, config: NetworkConfig, record: WorkloadEndpoint | undefined): CniResult {
  if (config.prevResult !== undefined) return parseResult(config.prevResult, request.cniVersion, "prevResult");
  if (record?.containerID === request.containerId) {
    return { interfaces: [], ips: record.ipNetworks.map((address) => ({ address })), routes: [], dns: {} };
  }
  throw new TortieError("container-unknown", `container ${request.containerId} has no prevResult and no endpoint: nothing to compare with`);
}

function recordDifferences(record: WorkloadEndpoint | undefined, containerId: string, addresses: readonly string[]): string[] {
  if (record === undefined) return [`endpoint record: wanted container ${containerId}, found none`];
  if (record.containerID !== containerId)
    return [`endpoint record: wanted container ${containerId}, found container ${record.containerID}`];
  const [wanted, found] = [addresses.join(","), record.ipNetworks.join(",")];
  return wanted === found ? [] : [`endpoint record: wanted addresses ${wanted}, found ${found}`];
}
