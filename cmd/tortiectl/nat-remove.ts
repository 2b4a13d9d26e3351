/** `tortiectl nat remove`: takes away the one nftables table of the local datastore, for a node whose pods are gone. */
import { removeNodeTable } from "../../dataplane/linux/apply-node-state.ts";
import { HostSockets } from "../../dataplane/netlink/host-sockets.ts";
import type { Terminal } from "./terminal.ts";

/**
 * @returns exit status
 * @throws TortieError `nat-failed`
 */
export function natRemove(terminal: Terminal, json: boolean): number {
  using host = new HostSockets();
  const removed = removeNodeTable(host);
  if (json) terminal.out(JSON.stringify({ removed }));
  else
    terminal.out(removed ? "tortie's nftables table is removed; the next ADD makes it again" : "there was no nftables table of tortie's");
  return 0;
}
