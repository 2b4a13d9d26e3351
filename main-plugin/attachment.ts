/** What one request is about: whose network, under which names, with which MAC and MTU. Pure, but for the node's name and the MTU file. */
import type { AttachmentName } from "../dataplane/alias.ts";
import type { Environment } from "../lib/cni/environment.ts";
import type { CniRequest } from "../lib/cni/protocol.ts";
import { checkFeaturesForPlainContainer, checkForAdd } from "../lib/config/add-checks.ts";
import { chooseDatastore } from "../lib/config/datastore-choice.ts";
import { resolveMtu } from "../lib/config/mtu.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import { checkNodenameFile, nodeName } from "../lib/config/node-name.ts";
import { TortieError } from "../lib/errors/errors.ts";
import { type CniArgs, parseCniArgs } from "../lib/workload/cni-args.ts";
import { endpointKey } from "../lib/workload/endpoint.ts";
import { identifyWorkload, type WorkloadIdentity } from "../lib/workload/identity.ts";
import { checkIdentity } from "../lib/workload/identity-checks.ts";
import { hostInterfaceName, hostInterfaceNameIfAny } from "../lib/workload/interface-names.ts";
import type { MacAddress } from "../lib/workload/mac.ts";
import { requestedAddresses, requestedMac } from "../lib/workload/requested.ts";
import type { EndpointKey } from "../lib/workload/workload-endpoint.ts";

/** What every verb needs to know. */
export interface Attachment {
  readonly identity: WorkloadIdentity;
  readonly args: CniArgs;
  readonly endpointKey: EndpointKey;
  readonly sandbox: string;
  /** Empty when FELIX_INTERFACEPREFIX allows none. */
  readonly hostInterface: string;
  readonly podInterface: string;
  /** What is written on the host end. */
  readonly owner: AttachmentName;
}

/** What only ADD and CHECK need to know, so that DEL cannot fail because of it. */
export interface NewAttachment extends Attachment {
  /** As configured: 0 when nobody says anything, negative values as they are (recording mtu--1). */
  readonly mtu: number;
  readonly mac: MacAddress | undefined;
}

/** @throws TortieError `arguments-invalid`, `identity-invalid` */
export function identifyAttachment(request: CniRequest, config: NetworkConfig, env: Environment): Attachment {
  const { containerId, interfaceName, network } = request;
  const args = parseCniArgs(request.args);
  const identity = identifyWorkload({ containerId, interfaceName, args, node: nodeName(config) });
  return {
    identity,
    args,
    endpointKey: endpointKey(identity, config.mesosLabels),
    sandbox: request.netns,
    hostInterface: hostInterfaceNameIfAny(identity, env.FELIX_INTERFACEPREFIX),
    podInterface: interfaceName,
    owner: { network, containerId, interfaceName, ...(identity.pod === "" ? {} : { workload: `${identity.namespace}/${identity.pod}` }) },
  };
}

/**
 * The same with all that ADD checks before it touches anything.
 * @throws TortieError as `identifyAttachment` and `assertAddPossible`, and `mac-invalid`, `addresses-requested-invalid`, `interface-prefix-invalid`
 */
export function identifyNewAttachment(request: CniRequest, config: NetworkConfig, env: Environment): NewAttachment {
  const mtu = assertAddPossible(config, env);
  const attachment = identifyAttachment(request, config, env);
  const datastore = chooseDatastore(config, env);
  checkIdentity(attachment.identity, request.network, datastore);
  if (attachment.identity.orchestrator === "cni") {
    if (datastore === "kubernetes") throw podMissing(attachment.identity);
    checkFeaturesForPlainContainer(config);
  }
  requestedAddresses(config, attachment.args);
  const hostInterface = hostInterfaceName(attachment.identity, env.FELIX_INTERFACEPREFIX);
  return { ...attachment, hostInterface, mtu, mac: requestedMac(config, attachment.args) };
}

/**
 * What must hold for any ADD of this configuration; STATUS asks for it too.
 * @returns the MTU
 * @throws TortieError `netconf-value`, `nodename-file-missing`, `mtu-file-invalid`
 */
export function assertAddPossible(config: NetworkConfig, env: Environment): number {
  const datastore = chooseDatastore(config, env);
  checkNodenameFile(config, datastore);
  const mtu = resolveMtu(config);
  checkForAdd(config, datastore);
  return mtu;
}

/** The Kubernetes datastore keeps endpoints as annotations of pods (recording env-no-args). */
function podMissing({ containerId }: WorkloadIdentity): TortieError {
  return new TortieError(
    "arguments-invalid",
    `container ${containerId}: CNI_ARGS lacks K8S_POD_NAME or K8S_POD_NAMESPACE, and the Kubernetes datastore keeps endpoints of pods only: unable to determine Pod name`,
  );
}
