/**
 * A node as Calico's own plugins leave it, and Calico's plugin beside ours: pods with the links, routes, annotations and IPAM objects
 * that contract I§2.11 and C§4 show, made by `ip` and plain requests. It shares no code with what is tested.
 */
import { createHash } from "node:crypto";
import { type ApiServerNode, NAMESPACE } from "../../support/kubernetes/api-server-node.ts";
import { pathOf, type StoredObject } from "../../support/kubernetes/resources.ts";
import type { Pod } from "../../support/node.ts";
import { nameOf, putAffinity, putBlock, putHandle } from "../ipam-plugin/calico-objects.ts";
import type { BlockSpec } from "../ipam-plugin/world.ts";

/** The name that Calico's manifests give their network: every handle begins with it. */
export const CALICO_NETWORK = "k8s-pod-network";
export const POOL = "10.70.0.0/24";
export const BLOCK = "10.70.0.0/26";
const GATEWAY = "169.254.1.1";
const CONFLICT = 409;

export interface CalicoPod {
  readonly pod: string;
  readonly container: string;
  readonly address: string;
  readonly hostInterface: string;
  readonly sandbox: Pod;
}

/** The block of the node, bound to it and empty. */
export async function bindBlock(node: ApiServerNode): Promise<void> {
  await putAffinity(node, node.name, BLOCK);
  await putBlock(node, BLOCK, { affinity: `host:${node.name}` });
}

/** What Calico's ADD comes to: address, link and annotations. */
export async function addAsCalico(node: ApiServerNode, pod: string): Promise<CalicoPod> {
  const container = `calico-${pod}`;
  await node.pod(pod);
  const address = await assign(node, container, pod);
  const hostInterface = hostInterfaceOf(pod);
  const sandbox = await node.sandbox(pod);
  await plug(node, sandbox, hostInterface, address);
  await annotate(node, pod, { containerID: container, podIP: `${address}/32`, podIPs: `${address}/32` });
  return { pod, container, address, hostInterface, sandbox };
}

/** What Calico's DEL comes to, for whoever made the pod. */
export async function delAsCalico(node: ApiServerNode, pod: string, container: string): Promise<void> {
  await node.node.ip("link", "delete", hostInterfaceOf(pod));
  await annotate(node, pod, { podIP: "", podIPs: "" });
  const handle = handleOf(container);
  await changeBlock(node, (block) => released(block, handle));
  await node.cluster.remove(node.group, "ipamhandles", handle);
}

/** The name that Felix expects, too (C§4.1). */
export function hostInterfaceOf(pod: string): string {
  return `cali${createHash("sha1").update(`${NAMESPACE}.${pod}`).digest("hex").slice(0, 11)}`;
}

export function handleOf(container: string): string {
  return `${CALICO_NETWORK}.${container}`;
}

/** The handle comes before the block, so that nobody takes the address for a leak. */
async function assign(node: ApiServerNode, container: string, pod: string): Promise<string> {
  const handle = handleOf(container);
  await putHandle(node, handle, { [BLOCK]: 1 });
  const ordinal = await changeBlock(node, (block) => {
    const [first] = block.unallocated;
    if (first === undefined) throw new Error(`${BLOCK} is full`);
    const secondary = { namespace: NAMESPACE, node: node.name, pod, timestamp: "2026-11-23 04:00:00.123456789 +0000 UTC" };
    return [
      {
        ...block,
        allocations: block.allocations.map((index, at) => (at === first ? block.attributes.length : index)),
        unallocated: block.unallocated.slice(1),
        attributes: [...block.attributes, { handle_id: handle, secondary }],
        sequenceNumberForAllocation: { ...block.sequenceNumberForAllocation, [String(first)]: block.sequenceNumber },
      },
      first,
    ];
  });
  return `10.70.0.${ordinal}`;
}

function released(block: BlockSpec, handle: string): readonly [BlockSpec, undefined] {
  const gone = block.attributes.findIndex(({ handle_id }) => handle_id === handle);
  if (gone < 0) throw new Error(`${BLOCK} holds nothing of ${handle}`);
  const freed = block.allocations.flatMap((index, ordinal) => (index === gone ? [ordinal] : []));
  const numbers = Object.entries(block.sequenceNumberForAllocation).filter(([ordinal]) => !freed.includes(Number(ordinal)));
  const changed = {
    ...block,
    allocations: block.allocations.map((index) => (index === null || index === gone ? null : index > gone ? index - 1 : index)),
    unallocated: [...block.unallocated, ...freed],
    attributes: block.attributes.filter((_, index) => index !== gone),
    sequenceNumberForAllocation: Object.fromEntries(numbers),
  };
  return [changed, undefined];
}

/** Compare-and-swap, as often as it takes: an attempt fails only when another writer's succeeded. */
async function changeBlock<T>({ cluster, group }: ApiServerNode, change: (block: BlockSpec) => readonly [BlockSpec, T]): Promise<T> {
  for (;;) {
    const stored = await cluster.get(group, "ipamblocks", nameOf(BLOCK));
    if (stored === undefined) throw new Error(`there is no block ${BLOCK}`);
    const before = blockOf(stored);
    const [after, result] = change(before);
    const spec = { ...after, sequenceNumber: before.sequenceNumber + 1n };
    const answer = await cluster.api("PUT", pathOf(group, "ipamblocks", nameOf(BLOCK)), { ...stored, spec });
    if (answer.status === CONFLICT) continue;
    if (answer.status !== 200) throw new Error(`block ${BLOCK}: ${answer.status} ${answer.text}`);
    return result;
  }
}

function blockOf(stored: StoredObject): BlockSpec {
  return stored.spec as unknown as BlockSpec;
}

async function plug({ node }: ApiServerNode, sandbox: Pod, hostInterface: string, address: string): Promise<void> {
  await node.ip("link", "add", hostInterface, "type", "veth", "peer", "name", "eth0", "netns", sandbox.name);
  await node.ip("link", "set", hostInterface, "address", "ee:ee:ee:ee:ee:ee", "up");
  // C§4.3: the host's own forwarding is not Calico's plugin's business, its interface's is.
  const settings = {
    [`conf/${hostInterface}/forwarding`]: 1,
    [`conf/${hostInterface}/proxy_arp`]: 1,
    [`neigh/${hostInterface}/proxy_delay`]: 0,
  };
  const lines = Object.entries(settings).map(([path, value]) => `echo ${value} > /proc/sys/net/ipv4/${path}`);
  const { exit, stderr } = await node.run(["/bin/sh", "-e", "-c", lines.join("\n")]);
  if (exit !== 0) throw new Error(stderr);
  await node.podIp(sandbox, "address", "add", `${address}/32`, "dev", "eth0");
  await node.podIp(sandbox, "link", "set", "eth0", "up");
  await node.podIp(sandbox, "route", "add", GATEWAY, "dev", "eth0", "scope", "link");
  await node.podIp(sandbox, "route", "add", "default", "via", GATEWAY, "dev", "eth0");
  await node.ip("route", "add", address, "dev", hostInterface, "scope", "link");
}

async function annotate({ cluster }: ApiServerNode, pod: string, values: Readonly<Record<string, string>>): Promise<void> {
  const annotations = Object.fromEntries(Object.entries(values).map(([key, value]) => [`cni.projectcalico.org/${key}`, value]));
  const path = pathOf("v1", "pods", pod, NAMESPACE);
  const answer = await cluster.api("PATCH", path, { metadata: { annotations } });
  if (answer.status !== 200) throw new Error(`pod ${pod}: ${answer.status} ${answer.text}`);
}
