/** Says what a failure most probably is, from what else went well and what the hosts' kernels say. Pure. */
import type { Trial } from "./plan.ts";
import type { Answer, EndFacts, HostFacts } from "./question.ts";
import { addressOf, type Member, memberOf, type World } from "./world.ts";

/** Everything that is known once all have answered. */
export interface Known {
  readonly world: Pick<World, "members" | "ports" | "limit" | "isPolicyPromised" | "outside">;
  readonly facts: ReadonlyMap<string, HostFacts>;
  readonly answerOf: (id: string) => Answer | undefined;
}

/** What a failure most probably is, and what to do. */
export interface Cause {
  readonly cause: string;
  readonly next: string;
}

const FIREWALL: Cause = {
  cause: "most probably a firewall of the host drops it",
  next: "look for a chain with policy drop: nft list ruleset, iptables -S FORWARD; let packets from and to cali* pass",
};

/** What keeps the packets of a pod from leaving it, or its host from passing them on. */
export function onItsNode(trial: Trial, answer: Answer, known: Known): Cause | undefined {
  const ipv = `IPv${trial.family}`;
  if (answer.why === "ENETUNREACH") {
    const next =
      "delete the pod, and look for what changes routes in pods: a chained plugin or a sidecar (tortiectl cni check names the difference)";
    return { cause: `the pod has no default route of ${ipv}`, next };
  }
  const isForwarded = trial.check !== "pod-to-host" && trial.check !== "host-to-pod";
  const setting = isForwarded ? closedSetting(trial, known) : undefined;
  if (setting !== undefined) {
    const all = trial.family === 4 ? "net.ipv4.ip_forward" : "net.ipv6.conf.all.forwarding";
    const next = `sysctl -w ${all}=1, and keep it in a file below /etc/sysctl.d; look for what switched it off`;
    return { cause: `the host does not forward ${ipv}: ${setting} is 0`, next };
  }
  const deaf = endsOf(known, [trial.node]).find((end) => !end.proxyArp);
  if (trial.family !== 4 || deaf === undefined) return undefined;
  const arp = `net.ipv4.conf.${deaf.name}.proxy_arp`;
  const next = `find what sets it (sysctl files, networkd, NetworkManager), then sysctl -w ${arp}=1 or delete the pod; tortiectl doctor`;
  return { cause: `the host does not answer ARP for the pod's gateway: ${arp} is 0`, next };
}

/** IPv6 has one switch for all interfaces that counts (net/ipv6/ip6_output.c, ip6_forward), IPv4 one of each that packets come in by. */
function closedSetting({ check, node, family }: Trial, known: Known): string | undefined {
  const forwarding = known.facts.get(node)?.forwarding;
  if (family === 6) return forwarding?.["6"] === false ? "net.ipv6.conf.all.forwarding" : undefined;
  const closed = endsOf(known, [node]).find((end) => !end.forwards);
  // Answers from elsewhere come in by the uplink.
  const isByUplink = check === "egress" || check === "other-node" || check === "dns";
  if (forwarding?.["4"] === false && (closed !== undefined || isByUplink)) return "net.ipv4.ip_forward";
  return closed === undefined ? undefined : `net.ipv4.conf.${closed.name}.forwarding`;
}

/** A pod whose host has no route to its own link. */
function withoutHostRoute(peer: Member | undefined, family: Trial["family"], { facts }: Known): Cause | undefined {
  const address = addressOf(peer, family);
  const way = facts.get(peer?.node ?? "")?.ways[address ?? ""]?.device;
  if (peer?.hostEnd === undefined || address === undefined || way === undefined || way === peer.hostEnd) return undefined;
  const leads = way === "" ? "no route of the host leads" : `the host's route leads to ${way}, and not`;
  const next =
    "delete the pod, or let the agent mend it; look for what removes routes: networkd (ManageForeignRoutes), NetworkManager, another CNI";
  return { cause: `${leads} to ${address} by ${peer.hostEnd}`, next };
}

export function betweenPods(trial: Trial, answer: Answer, known: Known): Cause {
  if (answer.why === "ECONNREFUSED") return REJECTED;
  return onItsNode(trial, answer, known) ?? withoutHostRoute(trial.peer, trial.family, known) ?? FIREWALL;
}

const REJECTED: Cause = {
  cause: "somebody rejects the connection: a firewall, or a policy",
  next: "nft list ruleset and tortiectl policy explain on that node show by whom",
};

export function toOwnPod(trial: Trial, answer: Answer, known: Known): Cause {
  return (
    withoutHostRoute(trial.peer, trial.family, known) ??
    onItsNode(trial, answer, known) ?? { ...FIREWALL, cause: `${FIREWALL.cause} on its way out` }
  );
}

export function toOwnHost(trial: Trial, answer: Answer, known: Known): Cause {
  const next = "let packets from cali* in: nft list ruleset, iptables -S INPUT";
  return (
    onItsNode(trial, answer, known) ??
    // Answers to a pod need the host's route to it; the other pod of the node stands for it.
    withoutHostRoute(memberOf(known.world, "web", trial.node), trial.family, known) ?? {
      cause: "most probably the host's firewall drops what comes in from pods",
      next,
    }
  );
}

export function betweenNodes(trial: Trial, answer: Answer, known: Known): Cause {
  const { node, family, peer } = trial;
  const ownCause = onItsNode(trial, answer, known) ?? withoutHostRoute(peer, family, known);
  if (ownCause !== undefined) return ownCause;
  const back = { ...trial, node: peer?.node ?? "", peer: memberOf(known.world, "web", node) };
  const routed = withoutNodeRoute(trial, known) ?? withoutNodeRoute(back, known);
  if (routed !== undefined) return routed;
  const other = known.facts.get(peer?.node ?? "");
  if (other?.forwarding[String(family)] === false)
    return { cause: `node ${peer?.node} does not forward`, next: "switch forwarding on there" };
  const device = known.facts.get(node)?.ways[addressOf(peer, family) ?? ""]?.device ?? "";
  if (device.startsWith("vxlan"))
    return {
      cause: "the tunnel's packets get lost between the nodes",
      next: "let UDP port 4789 pass between the nodes, both ways; a cloud's security group too",
    };
  return {
    cause: "the network between the nodes does not pass on packets of pods",
    next: "a cloud must allow foreign addresses (source/destination check off); else use vxlanMode of the pool: docs/how-to/connect-nodes.md",
  };
}

/** A node that sends packets for another's pods nowhere, or to somebody who may not know them. */
function withoutNodeRoute({ node, peer, family }: Trial, { world, facts }: Known): Cause | undefined {
  const address = addressOf(peer, family);
  const way = facts.get(node)?.ways[address ?? ""];
  if (way === undefined || peer === undefined) return undefined;
  const next = `tortiectl node status on ${node} says what the agent's routes wait for; without --node-routes, whoever is to make routes to ${address} is missing`;
  if (way.device === "" || way.device === "blackhole") {
    const why = way.device === "" ? "" : ", but a blackhole that has it";
    return { cause: `node ${node} has no route to ${address} of node ${peer.node}${why}`, next };
  }
  const isNodesOwn = world.members.some(
    (one) => one.node === peer.node && way.gateway !== undefined && one.addresses.includes(way.gateway),
  );
  if (isNodesOwn || way.gateway === undefined || /^(?:vxlan|tunl|wireguard|wg)/.test(way.device)) return undefined;
  return {
    cause: `node ${node} has no route of its own to ${address} of node ${peer.node}, and hands it to the router ${way.gateway}, which may not know it`,
    next,
  };
}

export function byHostPort(trial: Trial, answer: Answer, known: Known): Cause {
  const { host } = known.world.ports;
  const ownCause = onItsNode({ ...trial, check: "host-port" }, answer, known);
  if (ownCause !== undefined) return ownCause;
  const next = `nft list ruleset | grep ${host}, or iptables -t nat -S | grep CNI, on ${trial.node}: the list needs portmap with the capability portMappings; a firewall's reload may have removed its rules: delete the pod`;
  return { cause: `most probably portmap's rule for port ${host} is not there`, next };
}

/** Lists the host ends of pods of these nodes. */
export function endsOf({ world, facts }: Known, nodes: readonly string[]): readonly (EndFacts & { readonly name: string })[] {
  return world.members.flatMap(({ node, hostEnd = "" }) => {
    const end = nodes.includes(node) ? facts.get(node)?.ends[hostEnd] : undefined;
    return end === undefined ? [] : [{ name: hostEnd, ...end }];
  });
}
