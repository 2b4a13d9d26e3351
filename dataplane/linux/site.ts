/** A way to both ends of a link: the sandbox, and a socket in each namespace. */
import { inNamespace } from "../../lib/system/netns.ts";
import type { Sandbox } from "../../lib/system/sandbox.ts";
import { NETLINK_ROUTE, NetlinkSocket } from "../netlink/socket.ts";

export interface Site extends Disposable {
  readonly sandbox: Sandbox;
  readonly hostSocket: NetlinkSocket;
  readonly podSocket: NetlinkSocket;
}

/** @param sandbox stays open when the site is closed @throws TortieError `netns-invalid` when it cannot be entered */
export function openSite(sandbox: Sandbox): Site {
  using opened = new DisposableStack();
  const hostSocket = opened.use(NetlinkSocket.open(NETLINK_ROUTE));
  const podSocket = opened.use(inNamespace(sandbox, () => NetlinkSocket.open(NETLINK_ROUTE)));
  const kept = opened.move();
  return { sandbox, hostSocket, podSocket, [Symbol.dispose]: () => kept.dispose() };
}
