/** `tortiectl nat` and `tortiectl routes`: take away what is in the kernel for all pods of a node. The dataplane is loaded when one is called. */
import type { CommandModule } from "yargs";
import { TortieError } from "../../lib/errors/errors.ts";
import { type CommandContext, JSON_OUTPUT, type Terminal } from "./terminal.ts";

export function natCommand({ terminal, finish }: CommandContext): CommandModule {
  return {
    command: "nat",
    describe: "Masquerading of the traffic that leaves the pools",
    builder: (nat) =>
      nat
        .command({
          command: "remove",
          describe: "Remove tortie's nftables table; the next ADD that needs it makes it again",
          builder: (command) => command.option("json", JSON_OUTPUT),
          handler: async ({ json }) => finish(await natRemove(terminal, json)),
        })
        .demandCommand(1),
    handler: () => undefined,
  };
}

export function routesCommand({ terminal, finish }: CommandContext): CommandModule {
  return {
    command: "routes",
    describe: "Routes to other nodes",
    builder: (routes) =>
      routes
        .command({
          command: "remove",
          describe: "Remove the routes and VXLAN devices that an agent has made; one that runs with --node-routes makes them again",
          builder: (command) => command.option("json", JSON_OUTPUT),
          handler: async ({ json }) => finish(await routesRemove(terminal, json)),
        })
        .demandCommand(1),
    handler: () => undefined,
  };
}

/**
 * Removes the one nftables table of the local datastore, for a node whose pods are gone.
 * @returns exit status
 * @throws TortieError `nat-failed`
 */
async function natRemove(terminal: Terminal, json: boolean): Promise<number> {
  const { removeNodeTable } = await import("../../dataplane/linux/apply-node-state.ts");
  const { HostSockets } = await import("../../dataplane/netlink/host-sockets.ts");
  using host = new HostSockets();
  const removed = removeNodeTable(host);
  if (json) terminal.out(JSON.stringify({ removed }));
  else
    terminal.out(removed ? "tortie's nftables table is removed; the next ADD makes it again" : "there was no nftables table of tortie's");
  return 0;
}

/**
 * Removes what the agent has made for other nodes.
 * @returns exit status
 * @throws TortieError `netlink-failed` when something of it could not be removed
 */
async function routesRemove(terminal: Terminal, json: boolean): Promise<number> {
  const { applyNetwork } = await import("../../dataplane/linux/apply-network.ts");
  const { HostSockets } = await import("../../dataplane/netlink/host-sockets.ts");
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
