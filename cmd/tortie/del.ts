/**
 * CNI DEL: take an attachment apart (C§6.2, design invariants 3, 4 and 7).
 *
 * The link goes first, then the address, then the record; every step that is safe is tried whatever failed before, and the first error
 * is reported at the end. Repeating it is harmless. Nothing that only ADD needs is looked at.
 */
import type { CniRequest } from "../../lib/cni/protocol.ts";
import { checkDataplaneType } from "../../lib/config/add-checks.ts";
import type { NetworkConfig } from "../../lib/config/network-config.ts";
import { refuseOwnNamespace } from "../own-namespace.ts";
import { identifyAttachment } from "./attachment.ts";
import { removeEndpoint } from "./endpoint-store.ts";
import { chooseIpam } from "./ipam.ts";
import { ipamStdinForDel } from "./ipam-stdin.ts";
import { Outcome } from "./outcome.ts";
import type { Services } from "./services.ts";

export async function del(request: CniRequest, config: NetworkConfig, services: Services): Promise<void> {
  const { log, dataplane } = services;
  checkDataplaneType(config);
  const attachment = identifyAttachment(request, config, services.env);
  const outcome = new Outcome(log);

  const isUnplugged = await outcome.attempt("remove the link", async () => {
    // Or the interface that goes could be one of the node's own.
    refuseOwnNamespace(request);
    await dataplane.remove(attachment);
  });
  log.step("dataplane");

  // Invariant 3: an address is free only when the interface that carried it is gone.
  if (isUnplugged) {
    await outcome.attempt("release the addresses", () => chooseIpam(request, config, ipamStdinForDel(request), services).run("DEL"));
    log.step("ipam");
  }
  await outcome.attempt("remove the endpoint", async () => removeEndpoint(await services.datastore(), attachment, request.containerId));
  log.step("endpoint");
  outcome.report();
}
