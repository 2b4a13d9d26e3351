/**
 * Serves CNI STATUS: does this node's configuration let an ADD succeed? Asks the IPAM plugin too.
 *
 * Runtimes ask every few seconds, and a failure makes the whole node NotReady: its pods leave their Services at once and are evicted after
 * minutes. So it fails (code 50) only for what every ADD on this node will fail of until the node is corrected. A cluster that is
 * paused or does not answer, and a readiness gate that is closed, pass by themselves and do not concern the pods that run: they are lines
 * of the log, which `tortiectl cni status` shows (invariant 12).
 */
import { unavailable, unavailableUnless } from "../ipam-plugin/status.ts";
import { DatastoreError, inTime } from "../lib/datastore/errors.ts";
import { messageOf, TortieError } from "../lib/errors/errors.ts";
import { assertAddPossible, type NetworkCall } from "./call.ts";
import { findIpam } from "./find-ipam.ts";
import { assertClusterReady, assertNodeNamed, assertReadinessGates } from "./gates.ts";
import type { Host } from "./host.ts";
import { connectIpam, ipamInput } from "./ipam-source.ts";

/** @throws TortieError `status-unavailable` */
export async function status(call: NetworkCall, host: Host): Promise<void> {
  const { request, config } = call;
  await unavailableUnless("configuration", async () => assertAddPossible(call));
  const plugin = await unavailableUnless("IPAM plugin", async () => findIpam(request, config));
  if (call.traits.poolsFrom === "netconf") await unavailableUnless("datastore", () => readStore(host));
  await logUnlessOpen(call);
  // An IPAM plugin that cannot ask the cluster has nothing to add.
  if (await isAnswering(call, host)) await connectIpam(plugin, ipamInput(call), call, host).run("STATUS");
  await unavailableUnless("node", () => assertNodeNamed(call));
}

/** Reads the node's own file, which nobody else corrects. */
async function readStore(host: Host): Promise<void> {
  await (await host.datastore()).clusterInformation.get("default");
}

async function logUnlessOpen({ config: { readinessGates }, env, log }: NetworkCall): Promise<void> {
  try {
    await inTime(assertReadinessGates(readinessGates, env));
  } catch (error) {
    log.error(`an ADD would have to wait: ${messageOf(error)}`);
  }
}

/** @throws TortieError `status-unavailable` when it is this node that cannot ask */
async function isAnswering(call: NetworkCall, host: Host): Promise<boolean> {
  try {
    // Opening counts too: the agent asks the server for the group of Calico's resources then.
    await inTime(assertClusterReady(call, host));
    return true;
  } catch (error) {
    if (!passesByItself(error)) throw unavailable("datastore", error);
    call.log.error(`no ADD can be served now: ${messageOf(error)}`);
    return false;
  }
}

function passesByItself(error: unknown): boolean {
  if (error instanceof DatastoreError) return true;
  return error instanceof TortieError && ["cluster-not-ready", "datastore-object-missing"].includes(error.word);
}
