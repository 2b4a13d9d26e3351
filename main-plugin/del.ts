/**
 * CNI DEL: take an attachment apart (C§6.2, design invariants 3, 4 and 7).
 *
 * The link goes first, then the record, then the address: an address that is free while its pod's annotations still name it has two
 * owners for everybody who reads them. Every step that is safe is tried whatever failed before, and the first error is reported at the
 * end. Repeating it is harmless. Nothing that only ADD needs is looked at.
 *
 * The link is this node's own business. The datastore is left alone while its cluster cannot be asked, or says that it is not ready:
 * a runtime comes back until everything is gone.
 */

import { refuseOwnNamespace } from "../lib/cni/own-namespace.ts";
import type { CniRequest } from "../lib/cni/protocol.ts";
import { checkDataplaneType } from "../lib/config/add-checks.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import { checkNodenameFile } from "../lib/config/node-name.ts";
import { identifyAttachment } from "./attachment.ts";
import { assertClusterReady } from "./cluster-ready.ts";
import { chooseIpam } from "./ipam.ts";
import { ipamStdinForDel } from "./ipam-stdin.ts";
import { Outcome } from "./outcome.ts";
import { removeLink } from "./remove-link.ts";
import type { Services } from "./services.ts";

export async function del(request: CniRequest, config: NetworkConfig, services: Services): Promise<void> {
  const { log } = services;
  checkDataplaneType(config);
  const attachment = identifyAttachment(request, config, services.env);
  const outcome = new Outcome(log);
  const isUnplugged = await outcome.attempt("remove the link", async () => {
    // Or the interface that goes could be one of the node's own.
    refuseOwnNamespace(request);
    await removeLink(attachment, services);
  });
  log.step("dataplane");

  const isReady = await outcome.attempt("ask the cluster", async () => {
    checkNodenameFile(config, services.datastoreType);
    await assertClusterReady(services);
  });
  log.step("cluster");
  if (!isReady) return outcome.report();

  const isForgotten = await outcome.attempt("remove the endpoint", async () => {
    const { records } = await services.datastore();
    log.debug("record of the endpoint", { clearing: await records.clear(attachment.endpointKey, request.containerId) });
  });
  log.step("endpoint");
  // An address is free only when no interface carries it and no record names it (invariant 3).
  if (isUnplugged && isForgotten) {
    await outcome.attempt("release the addresses", () => chooseIpam(request, config, ipamStdinForDel(request), services).run("DEL"));
    log.step("ipam");
  }
  outcome.report();
}
