/** Judges the nodes of a cluster as far as the API server knows them: their agents, conditions, versions, ranges and tunnels. */
import {
  contains,
  type Family,
  formatAddress,
  formatPrefix,
  maskPrefix,
  type Prefix,
  parseAddress,
  parsePrefix,
} from "../../lib/addresses/address.ts";
import { type Fields, objects, section, text, textList, texts } from "../../lib/json/decode.ts";
import { NETWORK_TAINT, NETWORK_UNAVAILABLE, OUR_REASONS } from "../../lib/kubernetes/network-condition.ts";
import { metadataOf } from "../../lib/kubernetes/objects.ts";
import { selects } from "../../lib/selector/selector.ts";
import { abridged } from "../checks.ts";
import { count, enumerate } from "../problem.ts";
import { type Finding, failed, skipped, warned, well } from "../report.ts";
import type { ClusterView } from "./view.ts";

const nameOf = (object: Fields) => text(section(object, "metadata"), "name");

/** @returns the text of a condition's status; empty without it */
function condition(object: Fields, type: string): { readonly status: string; readonly message: string } {
  const found = objects(section(object, "status"), "conditions").find((one) => text(one, "type") === type);
  if (found === undefined) return { status: "", message: "" };
  return {
    status: text(found, "status"),
    message: [text(found, "reason"), text(found, "message")].filter((part) => part !== "").join(": "),
  };
}

/** Looks for a ready agent on every node that the DaemonSet means. */
export async function agents(view: ClusterView): Promise<readonly Finding[]> {
  const { namespace } = view.options;
  if ((await view.agentSets()).length === 0) {
    const message = `there is no DaemonSet of agents in namespace ${namespace}: agents that hosts start themselves are asked there, by tortiectl doctor`;
    return [skipped("agents", message)];
  }
  const pods = new Map((await view.agentPods()).map((pod) => [text(section(pod, "spec"), "nodeName"), pod]));
  return judgeAgents((await view.nodes()).filter(isLinux).map(nameOf), pods, namespace);
}

/** The DaemonSet leaves other systems out by its nodeSelector. A node without the label has no kubelet yet. */
function isLinux(node: Fields): boolean {
  return (texts(section(node, "metadata"), "labels")["kubernetes.io/os"] ?? "linux") === "linux";
}

/** @param pods of agents, by their nodes */
export function judgeAgents(nodes: readonly string[], pods: ReadonlyMap<string, Fields>, namespace: string): readonly Finding[] {
  const found = nodes.flatMap((node): readonly Finding[] => {
    const pod = pods.get(node);
    if (pod === undefined) {
      const next = `see why it has none: kubectl -n ${namespace} describe daemonset tortie-node`;
      return [failed(`node ${node}`, "no pod of the agent is there", { word: "agent-unreachable", next })];
    }
    const ready = condition(pod, "Ready");
    if (ready.status === "True") return [];
    const cause = waitsFor(pod) ?? (ready.message || "it has not said that it is ready");
    const next = `kubectl -n ${namespace} logs ${nameOf(pod)} --all-containers; kubectl -n ${namespace} exec ${nameOf(pod)} -- tortiectl node status`;
    return [failed(`node ${node}`, `its agent ${nameOf(pod)} is not ready: ${cause}`, { word: "agent-unreachable", next })];
  });
  return found.length > 0 ? abridged(found, "nodes") : [well("agents", `one is ready on each of ${count(nodes.length, "node")}`)];
}

function waitsFor(pod: Fields): string | undefined {
  const status = section(pod, "status");
  const states = [...objects(status, "initContainerStatuses"), ...objects(status, "containerStatuses")];
  const waiting = states.map((one) => section(section(one, "state"), "waiting")).find((one) => text(one, "reason") !== "");
  return waiting && [text(waiting, "reason"), text(waiting, "message")].filter((part) => part !== "").join(": ");
}

/** Kubelet's word on each node, and what it says of the network. */
export async function conditions(view: ClusterView): Promise<readonly Finding[]> {
  const nodes = await view.nodes();
  const found = nodes.flatMap(judgeNode);
  return found.length > 0
    ? abridged(found, "nodes")
    : [well("nodes", `${count(nodes.length, "node")}: ready, and their network is available`)];
}

export function judgeNode(node: Fields): readonly Finding[] {
  const object = `node ${nameOf(node)}`;
  const [ready, network] = [condition(node, "Ready"), condition(node, NETWORK_UNAVAILABLE)];
  const isTainted = objects(section(node, "spec"), "taints").some((taint) => text(taint, "key") === NETWORK_TAINT);
  const found: Finding[] = [];
  if (ready.status === "False" || ready.status === "Unknown") {
    const isAboutCni = /cni|network ?plugin|network is not ready/i.test(ready.message);
    const next = isAboutCni ? "on that node: tortiectl doctor" : `look at its kubelet: kubectl describe node ${nameOf(node)}`;
    found.push(failed(object, `it is not ready: ${ready.message}`, { next }));
  }
  if (network.status === "True" || isTainted) {
    const message = `its network counts as unavailable${network.message === "" ? ` (taint ${NETWORK_TAINT})` : `: ${network.message}`}`;
    const next = network.message.startsWith(OUR_REASONS.down)
      ? "see the group agents, or tortiectl doctor on that node; the controller clears the condition when the agent is ready"
      : "whoever wrote the condition must clear it; Tortie changes only its own (docs/reference/controller.md)";
    found.push(failed(object, message, { next }));
  }
  return found;
}

/** Compares the images that agents run with what their DaemonSet says: a roll-out that stands still leaves both. */
export async function versions(view: ClusterView): Promise<readonly Finding[]> {
  const [set] = await view.agentSets();
  if (set === undefined) return [skipped("agents", "there is no DaemonSet of agents")];
  const wanted = imagesOf(section(section(section(set, "spec"), "template"), "spec"));
  const others = (await view.agentPods()).flatMap((pod) => {
    const spec = section(pod, "spec");
    const images = imagesOf(spec);
    return images === wanted ? [] : [`${text(spec, "nodeName")} (${images})`];
  });
  if (others.length === 0) return [well("agents", `all run ${wanted}`)];
  const next = `wait for the roll-out, or see what stops it: kubectl -n ${view.options.namespace} rollout status daemonset ${nameOf(set)}`;
  return [warned("agents", `the DaemonSet wants ${wanted}, and others run on ${enumerate(others)}`, { next })];
}

function imagesOf(spec: Fields): string {
  return [...new Set([...objects(spec, "initContainers"), ...objects(spec, "containers")].map((one) => text(one, "image")))].join(", ");
}

/** Looks for ranges that two nodes have, and for pools that hold addresses of nodes. */
export async function ranges(view: ClusterView): Promise<readonly Finding[]> {
  const nodes = await view.nodes();
  const pools = (await view.pools()).flatMap((pool) => {
    const cidr = parsePrefix(text(section(pool, "spec"), "cidr"));
    return cidr === undefined ? [] : [{ name: nameOf(pool), cidr }];
  });
  const found = [...doubleRanges(nodes), ...nodes.flatMap((node) => poolsOverNode(node, pools))];
  return found.length > 0 ? abridged(found, "nodes") : [well("nodes", "no range is of two nodes, and no pool holds an address of a node")];
}

export function doubleRanges(nodes: readonly Fields[]): readonly Finding[] {
  const ranges = nodes.flatMap((node) =>
    textList(section(node, "spec"), "podCIDRs")
      .flatMap((one) => parsePrefix(one) ?? [])
      .map((cidr) => ({ node: nameOf(node), cidr: maskPrefix(cidr) })),
  );
  return ranges.flatMap(({ node, cidr }, index) => {
    const other = ranges.slice(0, index).find((one) => one.node !== node && overlap(one.cidr, cidr));
    if (other === undefined) return [];
    const next = "delete one of the two Node objects, so that its kubelet registers it again and it gets another range";
    return [
      failed(`node ${node}`, `its podCIDR ${formatPrefix(cidr)} is a part of ${formatPrefix(other.cidr)} of node ${other.node}`, { next }),
    ];
  });
}

function poolsOverNode(node: Fields, pools: readonly { readonly name: string; readonly cidr: Prefix }[]): readonly Finding[] {
  const addresses = objects(section(node, "status"), "addresses").flatMap((one) => parseAddress(text(one, "address")) ?? []);
  return addresses.flatMap((address) => {
    const pool = pools.find(({ cidr }) => cidr.address.family === address.family && contains(cidr, address));
    if (pool === undefined) return [];
    const next = `make a pool outside of the nodes' networks, then delete pool ${pool.name} (docs/explanation/ipam.md)`;
    return [failed(`node ${nameOf(node)}`, `its address ${formatAddress(address)} is in pool ${pool.name}: a pod may get it`, { next })];
  });
}

function overlap(a: Prefix, b: Prefix): boolean {
  return a.address.family === b.address.family && (contains(a, b.address) || contains(b, a.address));
}

/** Where Calico and Tortie's agents keep a node's end of its tunnel. */
const TUNNEL_ADDRESS: Readonly<Record<Family, string>> = {
  4: "projectcalico.org/IPv4VXLANTunnelAddr",
  6: "projectcalico.org/IPv6VXLANTunnelAddr",
};

/** Looks whether each node has the end of a tunnel that a pool asks for. */
export async function tunnels(view: ClusterView): Promise<readonly Finding[]> {
  const [nodes, pools] = [await view.nodes(), await view.pools()];
  const tunnelled = pools.filter((pool) => ["Always", "CrossSubnet"].includes(text(section(pool, "spec"), "vxlanMode")));
  if (tunnelled.length === 0) return [skipped("tunnels", "no pool asks for VXLAN")];
  if (nodes.length < 2) return [skipped("tunnels", "there is one node")];
  const found: Finding[] = [];
  for (const pool of tunnelled) found.push(...(await ofPool(pool, nodes)));
  found.push(...doubleTunnels(nodes));
  return found.length > 0 ? abridged(found, "nodes") : [well("tunnels", "each node has its end, and no two the same")];
}

async function ofPool(pool: Fields, nodes: readonly Fields[]): Promise<readonly Finding[]> {
  const spec = section(pool, "spec");
  const family = parsePrefix(text(spec, "cidr"))?.address.family ?? 4;
  const without: string[] = [];
  for (const node of nodes) {
    const { name, labels, annotations } = metadataOf(node);
    const isMeant = await selects(text(spec, "nodeSelector"), `nodeSelector of pool ${nameOf(pool)}`, async () => labels);
    if (isMeant && (annotations[TUNNEL_ADDRESS[family]] ?? "") === "") without.push(name);
  }
  if (without.length === 0) return [];
  const message = `pool ${nameOf(pool)} asks for VXLAN, and ${count(without.length, "node has", "nodes have")} no end of it: ${enumerate(without)}`;
  return [
    failed("tunnels", message, {
      next: "give the agents --node-routes vxlan (docs/how-to/connect-nodes.md), or set the pool's vxlanMode to Never",
    }),
  ];
}

export function doubleTunnels(nodes: readonly Fields[]): readonly Finding[] {
  const owners = new Map<string, string>();
  return nodes.flatMap((node) =>
    Object.values(TUNNEL_ADDRESS).flatMap((annotation) => {
      const { name, annotations } = metadataOf(node);
      const address = annotations[annotation] ?? "";
      const owner = owners.get(address);
      if (address === "" || owner === undefined) {
        owners.set(address, name);
        return [];
      }
      const next = `restart the agent of one of them, or remove the annotation: kubectl annotate node ${name} ${annotation}-`;
      return [failed(`node ${name}`, `its tunnel address ${address} is that of node ${owner} too`, { next })];
    }),
  );
}
