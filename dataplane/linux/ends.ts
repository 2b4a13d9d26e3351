/** Tells whose a host end is, by what is written on it. */

import { inNamespace } from "../../lib/system/netns.ts";
import type { Sandbox } from "../../lib/system/sandbox.ts";
import { hasWorkload, namesAttachment, namesWorkload, parseAttachmentAlias } from "../alias.ts";
import type { HostEnd } from "../desired-state.ts";
import type { HostSockets } from "../netlink/host-sockets.ts";
import { NETLINK_ROUTE, type Netlink, NetlinkSocket } from "../netlink/socket.ts";
import { isDeletionGroup, type Link, UNFINISHED_GROUP } from "../rtnetlink/link.ts";

const DEVICE_KINDS: ReadonlySet<string> = new Set(["veth", "netkit"]);

/**
 * Tells whether the host end with this alias may be removed for another attachment that needs its name: it has no owner (Calico writes none),
 * this one, the same workload, or, where it does not say which workload, a container that the workload's record names. Another interface
 * of the very container is in use beside this one.
 */
export function mayReplace(alias: string, { owner, predecessors }: Pick<HostEnd, "owner" | "predecessors">): boolean {
  if (alias === "" || namesAttachment(alias, owner)) return true;
  const container = parseAttachmentAlias(alias)?.containerId;
  if (owner.workload === undefined || container === owner.containerId) return false;
  if (hasWorkload(alias)) return namesWorkload(alias, owner.workload);
  return container !== undefined && predecessors.includes(container);
}

/**
 * Tells whether this project made the link and got no further: it has the mark of its creation, no owner yet, and never was up. The group of
 * a joined deletion replaces that mark, and stays where the deletion fails or its process ends.
 */
export function isUnfinished({ group, alias, isUp, kind }: Link): boolean {
  return (group === UNFINISHED_GROUP || isDeletionGroup(group)) && alias === "" && !isUp && isDeviceKind(kind);
}

/** Tells whether links of attachments can be of this kind. */
export function isDeviceKind(kind: string): boolean {
  return DEVICE_KINDS.has(kind);
}

/** Gives a way to both ends of a link: the sandbox, and a socket in each namespace. */
export interface Site extends Disposable {
  readonly sandbox: Sandbox;
  readonly hostSocket: Netlink;
  readonly podSocket: Netlink;
}

/** @param sandbox stays open when the site is closed @throws TortieError `netns-invalid` when it cannot be entered */
export function openSite(host: HostSockets, sandbox: Sandbox): Site {
  const podSocket = inNamespace(sandbox, () => NetlinkSocket.open(NETLINK_ROUTE));
  return { sandbox, hostSocket: host.route, podSocket, [Symbol.dispose]: () => podSocket[Symbol.dispose]() };
}
