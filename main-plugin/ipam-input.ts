/** The IPAM plugin's input for an ADD: the runtime's own, with what the node and the pod's annotations put into it (C§2.3 S3 and S6). */
import type { CniRequest } from "../lib/cni/protocol.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import { nodeName } from "../lib/config/node-name.ts";
import { TortieError } from "../lib/errors/errors.ts";
import type { Access } from "./access.ts";
import { withPodCidrs } from "./host-local.ts";
import { encode, hostLocalSection, type IpamSection } from "./ipam-stdin.ts";
import type { Subject } from "./subject.ts";

/** A request for the IPAM plugin, and what its standard input says. */
export interface IpamInput {
  readonly request: CniRequest;
  readonly config: NetworkConfig;
}

/** @throws TortieError `pod-cidr-missing`, `datastore-object-missing`; DatastoreError */
export async function ipamInputForAdd(
  request: CniRequest,
  config: NetworkConfig,
  section: IpamSection,
  subject: Pick<Subject, "adapt">,
  access: Access,
): Promise<IpamInput> {
  const ipam = hostLocalSection(request);
  if (!section.needsPodCidrs || ipam === undefined) return subject.adapt({ request, config });
  const node = config.kubernetes.nodeName ?? nodeName(config);
  const netconf = { ...request.netconf, ipam: withPodCidrs(ipam, node, await podCidrsOf(node, access)) };
  return subject.adapt({ request: { ...request, netconf, stdin: encode(netconf) }, config });
}

async function podCidrsOf(name: string, access: Access): Promise<readonly string[]> {
  const node = await (await access.core()).node(name);
  if (node === undefined) throw new TortieError("datastore-object-missing", `nodes ${JSON.stringify(name)} not found`);
  return node.podCIDRs;
}
