/** `tortiectl routes remove`: takes away the routes to other nodes and the VXLAN devices that an agent has made and left. */
import { applyNetwork } from "../../dataplane/linux/apply-network.ts";
import { HostSockets } from "../../dataplane/netlink/host-sockets.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import type { Terminal } from "./terminal.ts";

/**
 * @returns exit status
 * @throws TortieError `netlink-failed` when something of it could not be removed
 */
export async function routesRemove(terminal: Terminal, json: boolean): Promise<number> {
  using host = new HostSockets();
  const { changed, failed } = await applyNetwork(host, { tunnels: [], routes: [] });
  if (json) {
    terminal.out(JSON.stringify({ changed, failed }));
    return failed.length === 0 ? 0 : 1;
  }
  for (const what of changed) terminal.out(what);
  if (failed.length > 0) throw new TortieError("netlink-failed", failed.join("; "));
  terminal.out("no route or VXLAN device of tortie's is left; an agent with --node-routes makes them again");
  return 0;
}
