/** Makes the endpoint record of an attachment that is there, from what was proven of it and from its network's list. */
import { attachmentAlias } from "../../dataplane/alias.ts";
import type { DesiredState } from "../../dataplane/desired-state.ts";
import type { HostEndLink } from "../../dataplane/linux/host-ends.ts";
import { grantOf } from "../../handover/add-journal.ts";
import type { CniCall } from "../../handover/call.ts";
import { callText } from "../../handover/call-body.ts";
import type { RecordedAddress, RecordedNamespace } from "../../handover/record.ts";
import { formatAddress, hostPrefix } from "../../lib/addresses/address.ts";
import type { AttachmentId } from "../../lib/cni/attachment-id.ts";
import type { Environment } from "../../lib/cni/protocol.ts";
import { ResultCache } from "../../lib/cni/runtime/cache.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import { stringifyJson } from "../../lib/json/value.ts";
import { ifReadable } from "../../lib/system/files.ts";
import { sha256 } from "../../lib/system/hash.ts";
import type { SeenSandbox } from "../../lib/system/sandbox.ts";
import { workloadHandleId } from "../../lib/workload/identity.ts";
import { parseCniArgs, withIgnoreUnknown } from "../../lib/workload/requested.ts";
import { resolveAddCall } from "../../main-plugin/call.ts";
import { planAttachment } from "../../main-plugin/plan.ts";
import { routersFor } from "../../main-plugin/plan-endpoint-form.ts";
import { desiredStateOf } from "../../main-plugin/plan-routed-form.ts";
import { resolveCall, type Surroundings } from "../attachments/call.ts";
import type { TakenOver } from "../endpoints/manager.ts";
import type { NodeList } from "../start/node-lists.ts";

/** An attachment that was proven. */
export interface Proven {
  readonly end: HostEndLink;
  readonly attachment: AttachmentId;
  readonly pod: string | undefined;
  readonly podUID: string | undefined;
  readonly list: NodeList;
  /** The sandbox that the pod end is in; absent if no path leads to it. */
  readonly sandbox: SeenSandbox | undefined;
}

export interface RecordParts extends Pick<Surroundings, "hosts" | "ipamType"> {
  readonly env: Environment;
  /** Directory in which runtimes keep the arguments of their ADDs (libcni). */
  readonly cacheDir: string;
}

/** @returns the record, and the reason why its link cannot be repaired, if there is one */
export async function recordOf(proven: Proven, parts: RecordParts): Promise<{ record: TakenOver; problem?: string }> {
  const { end, attachment, pod, podUID, list, sandbox } = proven;
  const { config } = list;
  const args = argsOf(proven, parts);
  const call = callOf(proven, args, parts);
  const grant = grantOf(config);
  const handle = grant === "block" ? workloadHandleId(attachment.network, attachment.containerId) : undefined;
  const addresses = end.addresses.map(
    (address): RecordedAddress => ({ address: formatAddress(address), family: address.family, grant, handle }),
  );
  const planned = await desiredOf(proven, call, parts);
  return {
    record: {
      attachment,
      ...(pod === undefined ? {} : { pod }),
      ...(podUID === undefined ? {} : { podUID }),
      ...(args.podUid === "" ? {} : { runtimePodUID: args.podUid }),
      netns: namespaceOf(sandbox),
      hostInterface: { name: end.name, index: end.index, alias: aliasOf(proven) },
      podInterface: attachment.ifname,
      linkForm: config.linkForm === "endpoint" ? "endpoint" : "routed",
      ...(end.kind === "veth" || end.kind === "netkit" ? { linkKind: end.kind } : {}),
      addresses,
      // No ADD has this digest, so a repeated one is carried out.
      request: { digest: "", cniVersion: String(list.netconf.cniVersion ?? ""), configDigest: sha256(call.text), call: callText(call) },
      takenOver: args.isCached ? "with-arguments" : "without-arguments",
      ...("desired" in planned ? { desired: planned.desired, hostMac: planned.desired.host.mac } : {}),
    },
    ...("problem" in planned ? planned : {}),
  };
}

/** Alias of the host end once it is an endpoint's. */
export function aliasOf({ end, attachment, pod }: Pick<Proven, "end" | "attachment" | "pod">): string {
  return end.alias === "" ? attachmentAlias({ ...attachment, ...(pod === undefined ? {} : { workload: pod }) }) : end.alias;
}

function namespaceOf(sandbox: SeenSandbox | undefined): RecordedNamespace {
  return sandbox === undefined ? { path: "" } : { ...sandbox, isVisible: true };
}

interface Arguments {
  readonly text: string;
  /** As the runtime gave them, which alone says the labels of a pod without an API server. */
  readonly isCached: boolean;
  /** The UID by which the runtime knows the pod; empty where it does not say. */
  readonly podUid: string;
}

function argsOf({ attachment, pod }: Proven, { cacheDir }: RecordParts): Arguments {
  const { network, containerId, ifname } = attachment;
  const cached = ifReadable(() =>
    new ResultCache(cacheDir).get(network, { containerId, interfaceName: ifname, netns: "", args: undefined, capabilityArgs: undefined }),
  );
  const given = cached?.attachment.args;
  const parsed = given === undefined ? undefined : ifReadable(() => parseCniArgs(withIgnoreUnknown(given)));
  if (given !== undefined && parsed !== undefined) return { text: given, isCached: true, podUid: parsed.podUid ?? "" };
  const [namespace, name] = pod?.split("/") ?? [];
  const text = `IgnoreUnknown=1;K8S_POD_NAMESPACE=${namespace};K8S_POD_NAME=${name};K8S_POD_INFRA_CONTAINER_ID=${containerId}`;
  return { text: pod === undefined ? "" : text, isCached: false, podUid: "" };
}

/** Makes the call that the runtime would make now. */
function callOf({ attachment, list, sandbox }: Proven, args: Arguments, { env }: RecordParts): CniCall {
  const text = stringifyJson(list.netconf);
  return {
    command: "ADD",
    env: {
      CNI_COMMAND: "ADD",
      CNI_CONTAINERID: attachment.containerId,
      CNI_IFNAME: attachment.ifname,
      CNI_NETNS: sandbox?.path ?? "",
      CNI_PATH: env.CNI_BIN_DIR || "/opt/cni/bin",
      ...(args.text === "" ? {} : { CNI_ARGS: args.text }),
    },
    text,
    stdin: new TextEncoder().encode(text),
    netns: sandbox ?? { path: "" },
    ownIpam: grantOf(list.config) !== "external",
  };
}

async function desiredOf(
  { end }: Proven,
  given: CniCall,
  parts: RecordParts,
): Promise<{ readonly desired: DesiredState } | { readonly problem: string }> {
  try {
    const { call, host } = resolveCall(given, parts);
    const addCall = resolveAddCall(call, false);
    const plan = planAttachment(addCall, undefined, await routersFor(addCall, host));
    if (plan.hostInterface !== end.name) return { problem: `its list would name the host end ${plan.hostInterface}` };
    return { desired: desiredStateOf(plan, end.addresses.map(hostPrefix), true) };
  } catch (error) {
    return { problem: messageOf(error) };
  }
}
