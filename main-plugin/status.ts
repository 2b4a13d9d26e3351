/**
 * CNI STATUS: does this node's configuration let an ADD succeed? The IPAM plugin is asked too.
 *
 * Runtimes ask every few seconds, and a failure makes the whole node NotReady: its pods leave their Services at once and are evicted after
 * minutes. So it fails (code 50) only for what every ADD on this node will fail of until somebody corrects the node. A cluster that is
 * paused or does not answer, and a readiness gate that is closed, pass by themselves and do not concern the pods that run: they are lines
 * of the log, which `tortiectl cni status` shows (invariant 12).
 */
import type { CniRequest } from "../lib/cni/protocol.ts";
import type { NetworkConfig } from "../lib/config/network-config.ts";
import { DatastoreError } from "../lib/datastore/errors.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { assertAddPossible } from "./attachment.ts";
import { assertClusterReady } from "./cluster-ready.ts";
import { findIpam } from "./find-ipam.ts";
import { inTime } from "./in-time.ts";
import { chooseIpam } from "./ipam.ts";
import { ipamStdinForDel } from "./ipam-stdin.ts";
import type { Services } from "./services.ts";

/** @throws TortieError `status-unavailable` */
export async function status(request: CniRequest, config: NetworkConfig, services: Services): Promise<void> {
  await unavailableUnless("configuration", async () => assertAddPossible(config, services.env));
  await unavailableUnless("IPAM plugin", async () => findIpam(request, config));
  await unavailableUnless("datastore", () => openDatastore(services));
  await logUnlessOpen(config, services);
  // An IPAM plugin that cannot ask the cluster has nothing to add.
  if (await isAnswering(services)) await chooseIpam(request, config, ipamStdinForDel(request), services).run("STATUS");
}

/** A file is opened here; of an API server only the way to it is read. */
async function openDatastore(services: Services): Promise<void> {
  const datastore = await services.datastore();
  if (services.isStandalone) await datastore.clusterInformation.get("default");
}

async function logUnlessOpen({ readinessGates }: NetworkConfig, { log, env }: Services): Promise<void> {
  if (readinessGates.length === 0) return;
  const { assertReadinessGates } = await import("./readiness-gates.ts");
  try {
    await inTime(assertReadinessGates(readinessGates, env));
  } catch (error) {
    log.error(`an ADD would have to wait: ${messageOf(error)}`);
  }
}

/** @throws TortieError `status-unavailable` when it is this node that cannot ask */
async function isAnswering(services: Services): Promise<boolean> {
  try {
    await inTime(assertClusterReady(services));
    return true;
  } catch (error) {
    if (!passesByItself(error)) throw unavailable("datastore", error);
    services.log.error(`no ADD can be served now: ${messageOf(error)}`);
    return false;
  }
}

function passesByItself(error: unknown): boolean {
  if (error instanceof DatastoreError) return true;
  return error instanceof TortieError && ["cluster-not-ready", "datastore-object-missing"].includes(error.word);
}

async function unavailableUnless(what: string, probe: () => Promise<unknown>): Promise<void> {
  try {
    await probe();
  } catch (error) {
    throw unavailable(what, error);
  }
}

function unavailable(what: string, cause: unknown): TortieError {
  return new TortieError("status-unavailable", `${what}: ${messageOf(cause)}`, { cause });
}
