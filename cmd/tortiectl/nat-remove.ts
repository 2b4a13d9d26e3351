/** `tortiectl nat remove`: takes away the one nftables table of the local datastore, for a node whose pods are gone. */
import { LinuxDataplane } from "../../dataplane/linux/linux-dataplane.ts";
import { HostSockets } from "../../dataplane/netlink/host-sockets.ts";
import { NO_NODE_STATE } from "../../dataplane/node-state.ts";
import type { Terminal } from "./terminal.ts";

/**
 * @returns exit status
 * @throws TortieError `nat-failed`
 */
export async function natRemove(terminal: Terminal, json: boolean): Promise<number> {
  using host = new HostSockets();
  await new LinuxDataplane(host).applyNode(NO_NODE_STATE);
  if (json) terminal.out(JSON.stringify({ removed: true }));
  else terminal.out("tortie's nftables table is not there any more; the next ADD makes it again");
  return 0;
}
