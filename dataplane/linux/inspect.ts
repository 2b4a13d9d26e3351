/** Compares the kernel with a desired state, field by field; changes nothing. */
import { formatPrefix } from "../../lib/addresses/address.ts";
import { inNamespace, openNamespace } from "../../lib/system/netns.ts";
import type { DesiredState, Difference, Route, Sysctl } from "../desired-state.ts";
import { NETLINK_ROUTE, NetlinkSocket } from "../netlink/socket.ts";
import { findAddress, IFA_F_DADFAILED, IFA_F_TENTATIVE, listAddresses, prefixOf } from "./address.ts";
import { getLink, type Link } from "./link.ts";
import { findNeighbour } from "./neighbour.ts";
import { destinationOf, isSameRoute, isToSameDestination, listRoutes } from "./route.ts";
import { readSysctl } from "./sysctl.ts";

/** Both device kinds have it unless told otherwise (include/uapi/linux/if_ether.h, ETH_DATA_LEN). */
const DEFAULT_MTU = 1500;

type Side = Difference["side"];
type Field = readonly [object: string, wanted: string, found: string];

/** @throws TortieError `netns-missing`, `netns-invalid` */
export function inspect(desired: DesiredState): Difference[] {
  using namespace = openNamespace(desired.sandbox);
  using hostSocket = NetlinkSocket.open(NETLINK_ROUTE);
  using podSocket = inNamespace(namespace, () => NetlinkSocket.open(NETLINK_ROUTE));
  const { host, pod } = desired;
  const podSysctls = [...pod.sysctlsBeforeUp, ...pod.sysctls];
  return [
    ...differences("host", [
      ...sysctlFields(desired.node),
      ...linkFields(
        hostSocket,
        desired,
        host,
        [...host.addresses],
        [
          ["alias", host.alias, (link) => link.alias],
          ["MAC", host.mac, (link) => link.mac],
        ],
      ),
      ...sysctlFields(host.sysctls),
    ]),
    ...differences("pod", [
      ...linkFields(podSocket, desired, pod, [...pod.addresses], pod.mac === undefined ? [] : [["MAC", pod.mac, (link) => link.mac]]),
      ...neighbourFields(podSocket, pod),
      ...inNamespace(namespace, () => sysctlFields(podSysctls)),
    ]),
  ];
}

function differences(side: Side, fields: readonly Field[]): Difference[] {
  return fields.filter(([, wanted, found]) => wanted !== found).map(([object, wanted, found]) => ({ side, object, wanted, found }));
}

/** Of several values for one setting the last one counts, as when they are written. */
function sysctlFields(sysctls: readonly Sysctl[]): Field[] {
  const wanted = new Map(sysctls.map(({ path, value }) => [path, value]));
  return [...wanted].map(([path, value]) => [`sysctl ${path}`, value, readSysctl(path) ?? "missing"]);
}

function linkFields(
  socket: NetlinkSocket,
  { device }: DesiredState,
  end: { readonly name: string; readonly routes: readonly Route[] },
  addresses: readonly string[],
  own: readonly (readonly [string, string, (link: Link) => string])[],
): Field[] {
  const object = `link ${end.name}`;
  const link = getLink(socket, end);
  if (link === undefined) return [[object, "present", "missing"]];
  return [
    [`${object} kind`, device.kind, link.kind === "veth" ? device.kind : link.kind],
    [`${object} state`, "up", link.isUp ? "up" : "down"],
    [`${object} MTU`, String(device.mtu === 0 ? DEFAULT_MTU : device.mtu), String(link.mtu)],
    [`${object} TX queues`, String(device.queues), String(link.txQueues)],
    [`${object} RX queues`, String(device.queues), String(link.rxQueues)],
    ...own.map(([field, wanted, found]): Field => [`${object} ${field}`, wanted, found(link)]),
    ...addressFields(socket, link, addresses),
    ...routeFields(socket, link, end.routes),
  ];
}

function addressFields(socket: NetlinkSocket, link: Link, addresses: readonly string[]): Field[] {
  if (addresses.length === 0) return [];
  const there = listAddresses(socket, link.index);
  return addresses.map((text) => {
    const wanted = prefixOf(text);
    const found = findAddress(there, wanted);
    const object = `address ${formatPrefix(wanted)} of ${link.name}`;
    if (found === undefined) return [object, "usable", "missing"];
    if ((found.flags & IFA_F_DADFAILED) !== 0) return [object, "usable", "duplicate of another host's"];
    return [object, "usable", (found.flags & IFA_F_TENTATIVE) !== 0 ? "tentative" : "usable"];
  });
}

function neighbourFields(socket: NetlinkSocket, pod: DesiredState["pod"]): Field[] {
  const link = pod.neighbours.length === 0 ? undefined : getLink(socket, pod);
  if (link === undefined) return [];
  return pod.neighbours.map(({ address, mac }) => [
    `neighbour ${address} of ${pod.name}`,
    mac,
    findNeighbour(socket, link.index, address) ?? "missing",
  ]);
}

function routeFields(socket: NetlinkSocket, link: Link, routes: readonly Route[]): Field[] {
  const families = new Set(routes.map((route) => destinationOf(route).address.family));
  const there = [...families].flatMap((family) => listRoutes(socket, family));
  return routes.map((route) => {
    const object = `route ${route.destination}`;
    const wanted = routeText(link.name, route.gateway, route.scope);
    if (there.some((found) => isSameRoute(found, route, link.index))) return [object, wanted, wanted];
    const [other] = there.filter((found) => isToSameDestination(found, route));
    if (other === undefined) return [object, wanted, "missing"];
    const name = (other.index === 0 ? undefined : getLink(socket, { index: other.index })?.name) ?? "none";
    const gateway = other.gateway === undefined ? undefined : formatPrefix({ address: other.gateway, length: 0 }).replace(/\/0$/, "");
    return [object, wanted, routeText(name, gateway, other.scope)];
  });
}

function routeText(name: string, gateway: string | undefined, scope: string): string {
  return `${gateway === undefined ? "" : `via ${gateway} `}dev ${name} scope ${scope}`;
}
