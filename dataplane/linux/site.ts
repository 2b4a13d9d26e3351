/** A way to both ends of a link: the sandbox, and a socket in each namespace. */
import { inNamespace } from "../../lib/system/netns.ts";
import type { Sandbox } from "../../lib/system/sandbox.ts";
import type { HostSockets } from "../netlink/host-sockets.ts";
import { NETLINK_ROUTE, type Netlink, NetlinkSocket } from "../netlink/socket.ts";

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
