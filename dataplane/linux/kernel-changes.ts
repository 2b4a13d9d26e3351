/**
 * Hears from the kernel when links, addresses, routes, rules or neighbours of the host change that routes between nodes depend on. Changes
 * of pods' own links are left out: a node that starts many pods has hundreds of them.
 */
import { isAttachmentAlias } from "../alias.ts";
import type { HostSockets } from "../netlink/host-sockets.ts";
import { listenToKernel } from "../netlink/listen.ts";
import { type Message, parseMessages, parseStructure } from "../netlink/message.ts";
import { NETLINK_ROUTE, RTMGRP_LINK } from "../netlink/socket.ts";
import { IFADDRMSG_BYTES, RTM_DELADDR, RTM_NEWADDR } from "../rtnetlink/address.ts";
import { type Link, listLinks, parseLink, RTM_DELLINK, RTM_NEWLINK, UNFINISHED_GROUP } from "../rtnetlink/link.ts";
import { NDMSG_BYTES, RTM_DELNEIGH, RTM_NEWNEIGH } from "../rtnetlink/neighbour.ts";
import { RTM_DELROUTE } from "../rtnetlink/node-network.ts";
import { parseRouteOf, RTM_NEWROUTE } from "../rtnetlink/route.ts";

/** Groups of include/uapi/linux/rtnetlink.h; the last is 1 << (RTNLGRP_IPV6_RULE − 1). */
const RTMGRP_NEIGH = 0x4;
const RTMGRP_IPV4_IFADDR = 0x10;
const RTMGRP_IPV4_ROUTE = 0x40;
const RTMGRP_IPV4_RULE = 0x80;
const RTMGRP_IPV6_IFADDR = 0x100;
const RTMGRP_IPV6_ROUTE = 0x400;
const RTMGRP_IPV6_RULE = 0x40000;
const GROUPS =
  RTMGRP_LINK |
  RTMGRP_NEIGH |
  RTMGRP_IPV4_IFADDR |
  RTMGRP_IPV4_ROUTE |
  RTMGRP_IPV4_RULE |
  RTMGRP_IPV6_IFADDR |
  RTMGRP_IPV6_ROUTE |
  RTMGRP_IPV6_RULE;
/** Scope of link-local addresses and of what is valid on a link only (RT_SCOPE_LINK). */
const SCOPE_LINK = 253;
/** Room for a burst of some hundred links while the event loop is busy. */
const RECEIVE_BYTES = 1024 * 1024;

export interface ChangeListener {
  onChange(): void;
  /** Called once when the socket ends although nobody closed it: changes may have been missed. */
  onEnd(error: Error | undefined): void;
}

/** Listens in the process's own network namespace until it is disposed. @throws NetlinkError */
export function listenToChanges({ route }: HostSockets, listener: ChangeListener): Promise<Disposable> {
  const socket = { protocol: NETLINK_ROUTE, groups: GROUPS, receiveBytes: RECEIVE_BYTES, endsWhenFull: true };
  return listenToKernel(socket, () => {
    // After the socket was opened: no change between the two is lost.
    const changes = new RelevantChanges(listLinks(route));
    return {
      onData(data) {
        // Every message counts: each may change what is known of a link.
        const relevant = messagesOf(data).filter((message) => changes.has(message));
        if (relevant.length > 0) listener.onChange();
      },
      onEnd: (error) => listener.onEnd(error),
    };
  });
}

function messagesOf(data: Uint8Array): readonly Message[] {
  // The messages outlive Bun's buffer.
  return parseMessages(data.slice());
}

/** Decides which notifications concern routes between nodes. */
export class RelevantChanges {
  readonly #links = new Map<number, KnownLink>();

  constructor(links: readonly Link[]) {
    for (const link of links) this.#links.set(link.index, knownOf(link));
  }

  has(message: Message): boolean {
    switch (message.type) {
      case RTM_NEWLINK:
      case RTM_DELLINK:
        return this.#isOfLink(message);
      case RTM_NEWADDR:
      case RTM_DELADDR: {
        const { view } = parseStructure(message, IFADDRMSG_BYTES);
        return view.getUint8(3) !== SCOPE_LINK && this.#kindOf(view.getUint32(4, true)) !== "pod";
      }
      case RTM_NEWNEIGH:
      case RTM_DELNEIGH:
        return this.#kindOf(parseStructure(message, NDMSG_BYTES).view.getInt32(4, true)) === "tunnel";
      case RTM_NEWROUTE:
      case RTM_DELROUTE:
        return this.#isOfRoute(message);
      default:
        return true;
    }
  }

  #isOfLink(message: Message): boolean {
    const link = parseLink(message);
    const before = this.#links.get(link.index);
    const now = knownOf(link);
    if (message.type === RTM_DELLINK) this.#links.delete(link.index);
    else this.#links.set(link.index, now);
    return now.kind !== "pod" && (message.type === RTM_DELLINK || before?.state !== now.state);
  }

  #isOfRoute(message: Message): boolean {
    const found = parseRouteOf(4, message) ?? parseRouteOf(6, message);
    return found !== undefined && (found.index === undefined || this.#kindOf(found.index) !== "pod");
  }

  #kindOf(index: number): KnownLink["kind"] | undefined {
    return this.#links.get(index)?.kind;
  }
}

interface KnownLink {
  readonly kind: "pod" | "tunnel" | "other";
  /** What routes depend on: the kernel tells of statistics and settings too. */
  readonly state: string;
}

function knownOf({ name, alias, group, kind, isUp, mtu, mac, master }: Link): KnownLink {
  const isPod = isAttachmentAlias(alias) || (group === UNFINISHED_GROUP && kind !== "vxlan");
  return { kind: isPod ? "pod" : kind === "vxlan" ? "tunnel" : "other", state: [name, alias, isUp, mtu, mac, master].join() };
}
