/** Which dataplane a call has: this program's own, or another program that `dataplane_options` names (C§4.6). */
import type { ExternalAttachment } from "../dataplane/dataplane.ts";
import { formatPrefix } from "../lib/addresses/address.ts";
import { grpcServerOf } from "../lib/config/add-checks.ts";
import { endpointPorts } from "../lib/datastore/kubernetes/pod-endpoint.ts";
import type { Lease } from "./addresses.ts";
import type { AttachmentPlan } from "./attachment/attachment-plan.ts";
import type { AddCall, NetworkCall } from "./call.ts";
import type { Node } from "./node.ts";
import { endpointOf, type Workload } from "./workload.ts";

/** The node, with the dataplane of this call. Its code is loaded only where it is used. @throws TortieError `netconf-value` */
export async function nodeFor({ config, request }: NetworkCall, node: Node): Promise<Node> {
  const server = grpcServerOf(config);
  if (server === undefined) return node;
  const { GrpcDataplane } = await import("../dataplane/grpc/grpc-dataplane.ts");
  return { ...node, dataplane: new GrpcDataplane({ ...server, sandbox: request.netns }) };
}

/** What another program must be told; `undefined` where this one does the work. */
export async function externalAttachment(
  call: AddCall,
  workload: Workload,
  plan: AttachmentPlan,
  lease: Lease,
  node: Node,
): Promise<ExternalAttachment | undefined> {
  if (grpcServerOf(call.config) === undefined) return undefined;
  const endpoint = endpointOf(call, workload, lease, "");
  const { namespace, name, node: nodeName, orchestrator } = endpoint;
  // A pod's record has neither its labels nor its ports where it is annotations.
  const core = orchestrator === "k8s" ? await node.core() : undefined;
  const pod = await core?.pod({ namespace, name: endpoint.pod }, { mayBeOld: true });
  return {
    workload: {
      name,
      namespace,
      labels: { ...pod?.labels, ...endpoint.labels },
      annotations: pod?.annotations ?? {},
      endpoint: endpoint.endpoint,
      node: nodeName,
      orchestrator,
      pod: endpoint.pod,
      ports: pod === undefined ? endpoint.ports : endpointPorts(pod.ports),
    },
    addresses: lease.given ?? lease.addresses.map((prefix) => ({ address: formatPrefix(prefix) })),
    routes: plan.destinations.map(formatPrefix),
    allowIpForwarding: plan.allowIpForwarding,
  };
}
