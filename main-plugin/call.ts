/**
 * Resolves what one call asks for, once and before any request: whose network, under which names, where its datastore is, which addresses
 * and which MAC were requested. Pure, but for the files of the node's name and of the MTU, and the look for the IPAM plugin.
 *
 * There are three depths, because a DEL must not fail over what only an ADD needs (design, invariant 4), and GC and STATUS name no
 * container.
 */

import type { AttachmentName } from "../dataplane/alias.ts";
import type { AddJournal } from "../handover/add-journal.ts";
import { type Collection, LONE_COLLECTION } from "../ipam-plugin/call.ts";
import type { Prefix } from "../lib/addresses/address.ts";
import { attachmentOf } from "../lib/cni/attachment-id.ts";
import type { CniDns, CniRequest, CniRoute, Environment } from "../lib/cni/protocol.ts";
import { namesOwnNamespace, refuseOwnNamespace } from "../lib/cni/request.ts";
import { checkFeaturesForPlainContainer, checkForAdd } from "../lib/config/add-checks.ts";
import { chooseDatastore } from "../lib/config/datastore-choice.ts";
import type { DatastoreType, NetworkConfig } from "../lib/config/decode.ts";
import { nodeName, resolveMtu } from "../lib/config/node-name.ts";
import { type Traits, traitsOf } from "../lib/datastore/datastore.ts";
import { TortieError } from "../lib/errors/errors.ts";
import type { Logger } from "../lib/log/logger.ts";
import { verifyNamespacePath } from "../lib/system/netns.ts";
import { Sandbox } from "../lib/system/sandbox.ts";
import { NEVER } from "../lib/system/waiting.ts";
import type { EndpointKey } from "../lib/workload/endpoint.ts";
import { endpointKey } from "../lib/workload/endpoint.ts";
import { checkIdentity, identifyWorkload, type WorkloadIdentity } from "../lib/workload/identity.ts";
import { endpointHostInterfaceName, hostInterfaceName, hostInterfaceNameIfAny } from "../lib/workload/names.ts";
import { type CniArgs, parseCniArgs, type Requested, requestedOf, withIgnoreUnknown } from "../lib/workload/requested.ts";
import { type IpamSection, readIpamSection } from "./delegates.ts";
import { findIpam, type IpamPlugin } from "./find-ipam.ts";
import { type CallPolicy, NO_POLICY } from "./policy.ts";

/** Addresses of an attachment with what goes with them: what a lease has, and a record keeps. */
export interface HeldAddresses {
  /** In the order of the result, /32 and /128. */
  readonly addresses: readonly Prefix[];
  /** false for the target of a live migration, whose host routes come later (C§2.3 S9). */
  readonly hostRoutes: boolean;
  /** The IPAM plugin's, for the result (C§5.1). */
  readonly routes: readonly CniRoute[];
  readonly dns: CniDns;
}

/** A call that is about one network of one node: STATUS and GC. */
export interface NetworkCall {
  readonly request: CniRequest;
  readonly config: NetworkConfig;
  /** The caller's; an agent's own must not decide anything. */
  readonly env: Environment;
  readonly log: Logger;
  /** Aborts when the caller wants no answer any more: an ADD takes back what it has made. */
  readonly signal: AbortSignal;
  readonly datastore: DatastoreType;
  readonly traits: Traits;
  /** No Felix runs beside us: the node itself forwards and masquerades. */
  readonly forwardsOnNode: boolean;
  readonly nodeName: string;
  /** Told of each part of an ADD; where nobody records them, it does nothing. */
  readonly journal: AddJournal;
  /** Asked by ADD and CHECK, wherever policy is enforced; where it is not, it does nothing. */
  readonly policy: CallPolicy;
  /** Sandbox of an ADD or CHECK, proven and closed by whoever serves the call. Default: the one that the request names now. */
  readonly sandbox?: Sandbox;
  /** What a record says that the attachment holds already: an ADD keeps it, and a failed one does not give it back. */
  readonly held?: HeldAddresses;
  /** Of a GC: what must be kept although the runtime does not list it. */
  readonly collection: Collection;
}

/** A call that is about one attachment: DEL. */
export interface AttachmentCall extends NetworkCall {
  readonly args: CniArgs;
  readonly identity: WorkloadIdentity;
  readonly endpointKey: EndpointKey;
  /** Empty when FELIX_INTERFACEPREFIX allows none. */
  readonly hostInterface: string;
  readonly podInterface: string;
  /** What is written on the host end. */
  readonly owner: AttachmentName;
}

/** A call about an attachment that shall be, or should be, there: ADD and CHECK. */
export interface AddCall extends AttachmentCall {
  /** As configured: 0 when it is not configured, negative values as they are (recording mtu--1). */
  readonly mtu: number;
  /** What the runtime asks for; annotations of the pod beat it. */
  readonly requested: Requested;
  readonly ipam: IpamPlugin;
  readonly ipamSection: IpamSection;
}

const NO_JOURNAL: AddJournal = { addresses: async () => {}, link: async () => {}, endpoint: async () => {}, commit: async () => {} };

/** @throws TortieError `netconf-value` */
export function resolveNetworkCall(
  request: CniRequest,
  config: NetworkConfig,
  env: Environment,
  log: Logger,
  signal: AbortSignal = NEVER,
): NetworkCall {
  const datastore = chooseDatastore(config, env);
  const traits = traitsOf(datastore);
  // Other programs that a DEL starts must not take the host's own namespace for the container's.
  const netns = request.command === "DEL" && namesOwnNamespace(request) ? "" : request.netns;
  return {
    // The runtime's own keys (K8S_POD_UID and the like) must not fail the IPAM plugin, which inherits these arguments (C§0.1).
    request: { ...request, netns, args: withIgnoreUnknown(request.args) },
    config,
    env: netns === request.netns ? env : { ...env, CNI_NETNS: netns },
    log,
    signal,
    datastore,
    traits,
    // Where there is a cluster there is Felix.
    // Nor does Felix know links of form `endpoint`.
    forwardsOnNode: traits.poolsFrom === "netconf" || config.linkForm === "endpoint",
    nodeName: nodeName(config),
    journal: NO_JOURNAL,
    policy: NO_POLICY,
    collection: LONE_COLLECTION,
  };
}

/**
 * Resolves the attachment, once a call: one that is resolved already stays as it is.
 * @throws TortieError `arguments-invalid`, `identity-invalid`
 */
export function resolveAttachmentCall(call: NetworkCall | AttachmentCall): AttachmentCall {
  if ("identity" in call) return call;
  const { request, config, env } = call;
  const { containerId, interfaceName } = request;
  const args = parseCniArgs(request.args);
  const identity = identifyWorkload({ containerId, interfaceName, args, node: call.nodeName });
  return {
    ...call,
    args,
    identity,
    endpointKey: endpointKey(identity),
    hostInterface:
      config.linkForm === "endpoint"
        ? endpointHostInterfaceName(containerId, interfaceName)
        : hostInterfaceNameIfAny(identity, env.FELIX_INTERFACEPREFIX),
    podInterface: interfaceName,
    owner: { ...attachmentOf(request), workload: identity.pod === "" ? undefined : `${identity.namespace}/${identity.pod}` },
  };
}

/**
 * Resolves an ADD, with all that it checks before it sends a request or changes anything.
 * @param entersSandbox false: for a plan of what an attachment that is there should have
 *
 * @throws TortieError as `resolveAttachmentCall`, `assertAddPossible` and `findIpam`, and `mac-invalid`, `addresses-requested-invalid`,
 * `interface-prefix-invalid`, `netns-missing`, `netns-invalid`, `netns-own`, `netconf-type`, `pod-cidr-missing`
 */
export function resolveAddCall(networkCall: NetworkCall | AttachmentCall, entersSandbox = true): AddCall {
  const mtu = assertAddPossible(networkCall);
  const call = resolveAttachmentCall(networkCall);
  const { request, config, identity, args } = call;
  checkIdentity(identity, request.network, call.traits);
  if (identity.orchestrator === "cni") {
    if (call.traits.endpointsAre === "annotations") throw podMissing(identity);
    checkFeaturesForPlainContainer(config);
  }
  const requested = requestedOf(config, args);
  const hostInterface = config.linkForm === "endpoint" ? call.hostInterface : hostInterfaceName(identity, call.env.FELIX_INTERFACEPREFIX);
  // A sandbox that the serving process has proven needs no look at the path, which may lead elsewhere in its view of the file system.
  if (entersSandbox && call.sandbox === undefined) {
    verifyNamespacePath(request.netns);
    refuseOwnNamespace(request);
  }
  const ipamSection = readIpamSection(request, call.traits.nodesAreObjects);
  const ipam = findIpam(request, config);
  call.log.step("checks");
  return { ...call, hostInterface, mtu, requested, ipam, ipamSection };
}

/**
 * Checks what must hold for any ADD of this configuration; STATUS asks for it too.
 * @returns the MTU
 * @throws TortieError `netconf-value`, `mtu-file-invalid`
 */
export function assertAddPossible({ config, datastore }: Pick<NetworkCall, "config" | "datastore">): number {
  const mtu = resolveMtu(config);
  checkForAdd(config, datastore);
  return mtu;
}

/** Refuses a container without a pod: the Kubernetes datastore keeps endpoints as annotations of pods (recording env-no-args). */
function podMissing({ containerId }: WorkloadIdentity): TortieError {
  return new TortieError(
    "arguments-invalid",
    `container ${containerId}: CNI_ARGS lacks K8S_POD_NAME or K8S_POD_NAMESPACE, and the Kubernetes datastore keeps endpoints of pods only: unable to determine Pod name`,
  );
}

/**
 * Opens the sandbox of an ADD or CHECK, which the caller must close.
 * @throws TortieError `netns-missing`, `netns-invalid`, `netns-own`
 */
export function openSandbox({ request, sandbox }: Pick<AttachmentCall, "request" | "sandbox">): Sandbox {
  return sandbox?.borrowed() ?? Sandbox.named(request.netns, { allowsOwn: request.netnsOverride });
}
