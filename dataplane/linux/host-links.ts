/** Every link of the host in one dump, to be compared with records (A§7.3). */
import type { HostSockets } from "../netlink/host-sockets.ts";
import { type Link, listLinks } from "../rtnetlink/link.ts";

export type HostLink = Pick<Link, "index" | "name" | "alias" | "isUp" | "kind">;

/** @throws NetlinkError */
export function hostLinks({ route }: HostSockets): readonly HostLink[] {
  return listLinks(route);
}
