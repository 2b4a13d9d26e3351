/** What both plugins refuse to work on: the namespace they run in themselves (C§2.1 step 17). */

import { TortieError } from "../errors/errors.ts";
import { isOwnNamespace } from "../system/netns.ts";
import type { CniRequest } from "./protocol.ts";

/**
 * Looked at before anything is touched; Calico's plugins look when everything is done (recordings netns-own, env-netns-own).
 * @throws TortieError `netns-own` unless the caller insists with CNI_NETNS_OVERRIDE
 */
export function refuseOwnNamespace(request: Pick<CniRequest, "netns" | "netnsOverride">): void {
  if (request.netns === "" || request.netnsOverride || !isOwnNamespace(request.netns)) return;
  throw new TortieError("netns-own", "plugin's netns and netns from CNI_NETNS should not be the same");
}
