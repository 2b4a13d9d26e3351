/** Looks at what the kernel of this node says of network policy, for `policy.ts` to judge. Changes nothing. */
import { hasFelixChains } from "../dataplane/linux/host-facts.ts";
import type { HostSockets } from "../dataplane/netlink/host-sockets.ts";
import { unlessMissing } from "../dataplane/netlink/message.ts";
import { elementsIn } from "../dataplane/nftables/elements.ts";
import { ask } from "../dataplane/nftables/message.ts";
import { hasPolicyTable } from "../dataplane/nftables/policy/known-endpoints.ts";
import { names, POLICY_TABLE } from "../dataplane/nftables/policy/layout.ts";
import { IFNAME } from "../dataplane/nftables/sets.ts";
import { listLinks } from "../dataplane/rtnetlink/link.ts";
import type { Environment } from "../lib/cni/protocol.ts";
import { guardedPrefixes, prefixesOfLinks } from "../lib/workload/names.ts";
import type { PolicyFacts } from "./policy.ts";

/** Made by kube-proxy in mode ipvs, and by nobody else. */
const IPVS_DEVICE = "kube-ipvs0";
/** Kinds of links that attachments have. */
const KINDS: readonly string[] = ["veth", "netkit"];

/** What can be seen without an agent and without a server. */
export type NodeFacts = Pick<PolicyFacts, "hostEnds" | "known" | "hasFelix" | "hasIpvs">;

/** @param env for FELIX_INTERFACEPREFIX: the table judges host ends of other prefixes too, if it knows one @throws NetlinkError */
export function readNodeFacts(host: HostSockets, env: Environment): NodeFacts {
  const known = hasPolicyTable(host) ? knownHostEnds(host) : undefined;
  const guarded = guardedPrefixes(env.FELIX_INTERFACEPREFIX);
  const prefixes = [...guarded, ...prefixesOfLinks([...(known ?? [])], guarded)];
  const links = listLinks(host.route);
  const nameOf = new Map(links.map(({ index, name }) => [index, name]));
  const hostEnds = links
    .filter(({ name, kind }) => KINDS.includes(kind) && prefixes.some((prefix) => name.startsWith(prefix)))
    .map(({ name, master }) => ({ name, bridge: master === undefined ? undefined : nameOf.get(master) }));
  return {
    hostEnds,
    known,
    hasFelix: hasFelixChains(host),
    hasIpvs: links.some(({ name }) => name === IPVS_DEVICE),
  };
}

/** Lists the host ends that the table knows in both directions; a table without its maps knows nobody. */
function knownHostEnds(host: HostSockets): ReadonlySet<string> {
  const to = namesIn(host, names.endpoints("ingress"));
  return new Set([...namesIn(host, names.endpoints("egress"))].filter((name) => to.has(name)));
}

function namesIn({ netfilter }: HostSockets, map: string): ReadonlySet<string> {
  const messages = unlessMissing(() => netfilter.dump(ask("element", "inet", POLICY_TABLE, map))) ?? [];
  const elements = elementsIn(messages, { fields: [IFNAME], isMap: true });
  return new Set([...(elements?.keys() ?? [])].map((key) => Buffer.from(key.replace(/\0.*$/, ""), "latin1").toString()));
}
