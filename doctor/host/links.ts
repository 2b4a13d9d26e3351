/** Judges the host's ends of attachments: whether they are up, whether packets find them, how they are set, and how large a packet may be. */
import { isAttachmentAlias, parseAttachmentAlias } from "../../dataplane/alias.ts";
import { TUNNEL_ALIAS } from "../../dataplane/dataplane.ts";
import { readSysctl } from "../../dataplane/linux/sysctl.ts";
import type { Link } from "../../dataplane/rtnetlink/link.ts";
import type { KernelRoute } from "../../dataplane/rtnetlink/route.ts";
import { type Address, bitsOf, contains, type Family, formatAddress } from "../../lib/addresses/address.ts";
import { chooseDatastore } from "../../lib/config/datastore-choice.ts";
import { abridged } from "../checks.ts";
import { count } from "../problem.ts";
import { type Finding, failed, skipped, warned, well } from "../report.ts";
import { familiesOf, type HostView } from "./view.ts";

const NO_PODS = "no attachment of Tortie's is on this host";
const MENDING = "a running agent mends it; by hand";

function ownEnds(view: HostView): readonly Link[] {
  return view.links().filter(({ alias }) => isAttachmentAlias(alias));
}

/** Names the link with its pod, where its alias says which. */
function objectOf({ name, alias }: Pick<Link, "name" | "alias">): string {
  const workload = parseAttachmentAlias(alias)?.workload;
  return workload === undefined ? `interface ${name}` : `interface ${name} of ${workload}`;
}

type Ends = readonly Link[];

/** Says once that all is well, or what is wrong with each. */
function eachOf(ends: Ends, judge: (end: Link) => readonly Finding[], fine: string): readonly Finding[] {
  if (ends.length === 0) return [skipped("interfaces of pods", NO_PODS)];
  const found = ends.flatMap(judge);
  return found.length === 0
    ? [well("interfaces of pods", `${count(ends.length, "interface")}: ${fine}`)]
    : abridged(found, "interfaces of pods");
}

export function hostEndsUp(view: HostView): readonly Finding[] {
  const judge = (end: Link) =>
    end.isUp
      ? []
      : [failed(objectOf(end), "it is down: the pod reaches nobody", { next: `${MENDING}: ip link set ${end.name} up, then its route` })];
  return eachOf(ownEnds(view), judge, "all are up");
}

/** Compares with what the agent knows; without one, a host end that nothing leads to is worth a look. */
export async function podRoutes(view: HostView): Promise<readonly Finding[]> {
  const { view: agent } = await view.agent();
  const known = new Map(agent instanceof Error ? [] : agent.endpoints.map(({ hostInterface, addresses }) => [hostInterface, addresses]));
  const judge = (end: Link) => judgeRoutes(end, view.routes(), known.get(end.name));
  return eachOf(ownEnds(view), judge, "routes lead to all addresses");
}

/** @param addresses that the agent says the pod has; `undefined`: nobody says */
export function judgeRoutes(end: Link, routes: readonly KernelRoute[], addresses: readonly string[] | undefined): readonly Finding[] {
  const hosts = routes.filter(({ destination: { address, length } }) => length === bitsOf(address.family));
  const here = new Set(hosts.flatMap(({ index, destination }) => (index === end.index ? [formatAddress(destination.address)] : [])));
  const next = (address: string) => `${MENDING}: ip route replace ${address} dev ${end.name} scope link`;
  if (addresses === undefined) {
    if (here.size > 0) return [];
    return [
      warned(objectOf(end), "no route leads to it", {
        next: `${next("ADDRESS")}, with the address that tortiectl ipam show says the pod has`,
      }),
    ];
  }
  return addresses
    .filter((address) => !here.has(address))
    .map((address) => failed(objectOf(end), `no route leads to its address ${address}`, { next: next(address) }));
}

/** Is the MAC of the host end of an attachment whose gateway is 169.254.1.1 or fe80::ecee:eeff:feee:eeee (C§4.1). */
const HOST_MAC = "ee:ee:ee:ee:ee:ee";
const SETTINGS: Readonly<Record<Family, readonly (readonly [path: string, effect: string])[]>> = {
  4: [
    ["net/ipv4/conf/NAME/proxy_arp", "the pod finds no gateway"],
    ["net/ipv4/conf/NAME/forwarding", "what the pod sends goes nowhere"],
  ],
  6: [
    ["net/ipv6/conf/NAME/proxy_ndp", "the pod finds no IPv6 gateway"],
    ["net/ipv6/conf/NAME/forwarding", "what the pod sends by IPv6 goes nowhere"],
  ],
};

/** Is the gateway of pods (C§4.1). Proxy ARP answers for it only where a route leads there (net/ipv4/arp.c, arp_process). */
const GATEWAY: Address = { family: 4, value: 0xa9fe0101n };

/** Judges whether the host knows a way to the outside, and so answers as the gateway of its pods. */
export function outside(view: HostView): readonly Finding[] {
  const object = "route to the outside";
  if (!view.podFamilies().has(4)) return [skipped(object, NO_PODS)];
  if (view.routes().some(({ destination }) => destination.address.family === 4 && contains(destination, GATEWAY))) {
    return [well(object, "the host has one, and answers as the gateway of its pods")];
  }
  const next = "give the host its default route again: ip route add default via GATEWAY, and see why its network configuration lost it";
  // Without a cluster the plugin gives the pod its gateway's MAC, and nobody has to answer.
  const own = view.ownList();
  const isAlone = own !== undefined && chooseDatastore(own.config, view.options.env) === "local";
  if (isAlone) return [warned(object, "there is none: pods reach this host and its pods only", { next })];
  return [failed(object, "there is none: the host does not answer for 169.254.1.1, and pods have no gateway", { next })];
}

/** Looks at the settings that a pod has no network without. */
export function podSettings(view: HostView): readonly Finding[] {
  const judge = (end: Link) => {
    if (end.mac !== HOST_MAC) return [];
    const families = familiesOf(view.routes().filter(({ index }) => index === end.index));
    return ([4, 6] as const).filter((family) => families.has(family)).flatMap((family) => ofFamily(end, family));
  };
  return eachOf(ownEnds(view), judge, "proxy ARP and forwarding are on");
}

function ofFamily(end: Link, family: Family): readonly Finding[] {
  return SETTINGS[family].flatMap(([pattern, effect]) => {
    const path = pattern.replace("NAME", end.name);
    const value = readSysctl(path);
    if (value === "1" || value === undefined) return [];
    const setting = path.replaceAll("/", ".");
    return [failed(objectOf(end), `${setting} is ${value}: ${effect}`, { next: `${MENDING}: sysctl -w ${path}=1` })];
  });
}

/**
 * Judges reverse path filtering by the higher of the two settings, as the kernel does (Documentation/networking/ip-sysctl.rst). Felix has
 * rules of its own; without it the kernel's strict filter keeps a pod from sending with the address of another one.
 */
export function judgeReversePath(end: Link, all: string | undefined, own: string | undefined): readonly Finding[] {
  const effective = Math.max(Number(all ?? 0), Number(own ?? 0));
  if (effective === 1) return [];
  const cause = Number(all ?? 0) === 2 ? "net.ipv4.conf.all.rp_filter is 2" : `net.ipv4.conf.${end.name}.rp_filter is ${own}`;
  const next =
    Number(all ?? 0) === 2
      ? "sysctl -w net.ipv4.conf.all.rp_filter=1, also in /etc/sysctl.d: the higher of the two settings counts"
      : `sysctl -w net/ipv4/conf/${end.name}/rp_filter=1`;
  return [warned(objectOf(end), `${cause}: the kernel does not check where the pod sends from`, { next })];
}

export function reversePath(view: HostView): readonly Finding[] {
  if (view.hasFelix()) return [skipped("interfaces of pods", "Felix checks where pods send from")];
  const all = readSysctl("net/ipv4/conf/all/rp_filter");
  const has4 = new Set(view.routes().flatMap(({ index, destination }) => (destination.address.family === 4 ? [index] : [])));
  const ends = ownEnds(view).filter(({ index }) => has4.has(index));
  return eachOf(
    ends,
    (end) => judgeReversePath(end, all, readSysctl(`net/ipv4/conf/${end.name}/rp_filter`)),
    "strict, pods send from their own addresses only",
  );
}

/** Bytes that VXLAN puts before a packet: Ethernet, UDP and VXLAN headers, and IPv4's or IPv6's (RFC 7348). */
const VXLAN_BYTES = { 4: 50, 6: 70 } as const;

interface MtuFacts {
  /** What the default route leaves by. */
  readonly uplink: Pick<Link, "name" | "mtu">;
  readonly ends: Ends;
  readonly tunnels: readonly (Pick<Link, "name" | "mtu"> & { readonly family: Family })[];
}

/** Packets that are too large for the way are dropped where ICMP's answers do not come back. */
export function judgeMtu({ uplink, ends, tunnels }: MtuFacts): readonly Finding[] {
  const way = (name: string, mtu: number) => `${name} takes ${mtu}`;
  const tunnelled = tunnels.flatMap(({ name, mtu, family }) => {
    const most = uplink.mtu - VXLAN_BYTES[family];
    if (mtu <= most) return [];
    const message = `its MTU is ${mtu}, and ${way(uplink.name, uplink.mtu)}, ${most} after the tunnel's headers`;
    return [failed(`interface ${name}`, message, { next: `ip link set ${name} mtu ${most}; the agent makes it so at its next start` })];
  });
  const narrowest = [uplink, ...tunnels].reduce((least, one) => (one.mtu < least.mtu ? one : least));
  const large = ends.flatMap((end) => {
    if (end.mtu <= narrowest.mtu) return [];
    const message = `its MTU is ${end.mtu}, and ${way(narrowest.name, narrowest.mtu)}: larger packets are lost where ICMP is filtered`;
    const next = `set "mtu": ${narrowest.mtu} in the list, then let the pod be made again`;
    return [(narrowest === uplink ? failed : warned)(objectOf(end), message, { next })];
  });
  return [...tunnelled, ...abridged(large, "interfaces of pods")];
}

export function mtu(view: HostView): readonly Finding[] {
  const byIndex = new Map(view.links().map((link) => [link.index, link]));
  const defaults = view.routes().filter(({ destination, gateway }) => destination.length === 0 && gateway !== undefined);
  const uplink = defaults.flatMap(({ index }) => byIndex.get(index) ?? [])[0];
  if (uplink === undefined) return [skipped("MTU", "the host has no default route, so that no uplink is known")];
  const tunnels = view
    .links()
    .filter(({ alias }) => alias === TUNNEL_ALIAS)
    .map(({ name, mtu: size }) => ({ name, mtu: size, family: name.includes("v6") ? (6 as const) : (4 as const) }));
  const found = judgeMtu({ uplink, ends: ownEnds(view), tunnels });
  return found.length > 0 ? found : [well(`interface ${uplink.name}`, `its MTU ${uplink.mtu} has room for pods and tunnels`)];
}
