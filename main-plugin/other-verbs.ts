/** The verbs that print nothing. DEL is what runtimes wait for; the others are loaded when they come. */
import type { CniCommand, CniRequest } from "../lib/cni/protocol.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import type { Access } from "./access.ts";
import { del } from "./del.ts";
import { createServices } from "./services.ts";

export async function serveOther(
  command: Exclude<CniCommand, "ADD" | "VERSION">,
  request: CniRequest,
  config: NetworkConfig,
  access: Access,
): Promise<void> {
  const services = createServices(config, access);
  switch (command) {
    case "DEL":
      return del(request, config, services);
    case "CHECK":
      return (await import("./check.ts")).check(request, config, services);
    case "STATUS":
      return (await import("./status.ts")).status(request, config, services);
    case "GC":
      return (await import("./gc.ts")).gc(request, config, services);
  }
}
