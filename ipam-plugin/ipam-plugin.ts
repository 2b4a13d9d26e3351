/** Serves the verbs of the IPAM plugin (I§1), each with an open datastore: by its own executable, or inside the main plugin. */
export { HandleExistsError } from "./allocator/types.ts";

import type { CniCommand } from "../lib/cni/protocol.ts";
import type { IpamCall } from "./call.ts";
import { ipamCheck } from "./check.ts";
import { ipamDel } from "./del.ts";
import { ipamGc } from "./gc.ts";
import type { IpamHost } from "./host.ts";
import { ipamStatus } from "./status.ts";

export { ipamAdd, ipamResultOf, printedRoutes } from "./add.ts";

/**
 * Serves the verbs that return nothing.
 * @param command need not be the request's own: an ADD that finds what a killed one left runs DEL first
 */
export function ipamRun(command: Exclude<CniCommand, "ADD" | "VERSION">, call: IpamCall, host: IpamHost): Promise<void> {
  switch (command) {
    case "DEL":
      return ipamDel(call, host);
    case "CHECK":
      return ipamCheck(call, host);
    case "STATUS":
      return ipamStatus(call, host);
    case "GC":
      return ipamGc(call, host);
  }
}
