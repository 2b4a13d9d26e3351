/** Every link of the host in one dump, to be compared with records (A§7.3). */
import { NETLINK_ROUTE, NetlinkSocket } from "../netlink/socket.ts";
import { type Link, listLinks } from "../rtnetlink/link.ts";

export type HostLink = Pick<Link, "index" | "name" | "alias" | "isUp" | "kind">;

/** @throws NetlinkError */
export function hostLinks(): readonly HostLink[] {
  using socket = NetlinkSocket.open(NETLINK_ROUTE);
  return listLinks(socket);
}
