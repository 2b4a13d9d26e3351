/** A way to both ends of a link: the sandbox, and a socket in each namespace. */
import { inNamespace, type OpenNamespace, openNamespace } from "../../lib/system/netns.ts";
import { NETLINK_ROUTE, NetlinkSocket } from "../netlink/socket.ts";

export interface Site extends Disposable {
  readonly namespace: OpenNamespace;
  readonly hostSocket: NetlinkSocket;
  readonly podSocket: NetlinkSocket;
}

/** @throws TortieError `netns-missing`, `netns-invalid` */
export function openSite(sandbox: string): Site {
  using opened = new DisposableStack();
  const namespace = opened.use(openNamespace(sandbox));
  const hostSocket = opened.use(NetlinkSocket.open(NETLINK_ROUTE));
  const podSocket = opened.use(inNamespace(namespace, () => NetlinkSocket.open(NETLINK_ROUTE)));
  const kept = opened.move();
  return { namespace, hostSocket, podSocket, [Symbol.dispose]: () => kept.dispose() };
}
