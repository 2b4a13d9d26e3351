/** One call of the main plugin: the verb that CNI_COMMAND names. Each verb is loaded when it comes. */
import type { CniRequest } from "../lib/cni/protocol.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import { withIgnoreUnknown } from "../lib/workload/cni-args.ts";
import type { Services } from "./services.ts";

/** @returns what is to be printed: the result of ADD, nothing for the other verbs */
export async function serve(incoming: CniRequest, config: NetworkConfig, services: Services): Promise<string | undefined> {
  // The runtime's own keys (K8S_POD_UID and the like) must not fail the IPAM plugin, which inherits these arguments (C§0.1).
  const request = { ...incoming, args: withIgnoreUnknown(incoming.args) };
  switch (request.command) {
    case "ADD":
      return (await import("./add.ts")).add(request, config, services);
    case "DEL":
      await (await import("./del.ts")).del(request, config, services);
      return undefined;
    case "CHECK":
      await (await import("./check.ts")).check(request, config, services);
      return undefined;
    case "STATUS":
      await (await import("./status.ts")).status(request, config, services);
      return undefined;
    case "GC":
      await (await import("./gc.ts")).gc(request, config, services);
      return undefined;
  }
}
