/** Starts what serves attachments: the datastores behind their networks, the CNI verbs, and the queue of DELs. */
import { AttachmentLocks } from "../../handover/attachment-locks.ts";
import { DeleteQueueFiles } from "../../handover/delete-queue-files.ts";
import { type EndpointRecord, isUnfinishedAdd } from "../../handover/record.ts";
import { HOST_SCOPE } from "../../lib/config/ipam-section.ts";
import { SECOND_MS } from "../../lib/resident/options.ts";
import { NEVER, SYSTEM_CLOCK } from "../../lib/system/waiting.ts";
import type { HostParts } from "../../main-plugin/host.ts";
import { Hosts } from "../../main-plugin/hosts.ts";
import { type BlocksOptions, blocksParts } from "../addresses/blocks-parts.ts";
import type { NodeRanges } from "../addresses/ranges/start.ts";
import type { History } from "../endpoints/history.ts";
import type { EndpointManager } from "../endpoints/manager.ts";
import type { AgentPolicy } from "../policy/start.ts";
import type { AgentContext } from "../start/context.ts";
import { AttachmentService } from "./attachment-service.ts";
import type { ServedCall } from "./call.ts";
import { DeleteQueue } from "./delete-queue.ts";
import { reportFailedAdd } from "./failure-event.ts";
import { StoreWitness } from "./grant-witness.ts";
import { NewCluster } from "./new-cluster.ts";

/** What is there before there are endpoints. */
export interface Networks {
  readonly hosts: Hosts;
  readonly witness: StoreWitness;
  readonly locks: AttachmentLocks;
  /** DELs that plugins queued. */
  readonly queue: DeleteQueueFiles;
  /** Files of grants from this node's ranges. */
  readonly files: () => NodeRanges["nodeCidr"]["hostScope"]["files"];
}

/** @param knownRanges of this node and of others, as far as they are known at the moment of asking */
export function openNetworks(context: AgentContext, ranges: NodeRanges, knownRanges: HostParts["knownRanges"]): Networks {
  const { options, env, run, health, dataplane, log, tracing, cluster } = context;
  const blocks: BlocksOptions = {
    kubeconfig: options.kubeconfig,
    agentEnv: env,
    pools: cluster?.isDatastore ? cluster.pools : undefined,
    log,
    onWrite: (outcome, parts) => health.metrics.blockWritten(outcome, parts),
    tracing,
    hasOwnBlocks: options.ipam !== "host-scope",
  };
  const hosts = new Hosts({ log, parts: () => ({ dataplane, ...ranges.parts, knownRanges, ...blocksParts(blocks) }) });
  const files = () => ranges.nodeCidr.hostScope.files;
  return {
    hosts,
    files,
    witness: new StoreWitness({ hosts, files, ...ipamTypeOf(context) }),
    locks: new AttachmentLocks(run.attachments),
    queue: new DeleteQueueFiles(run.deleteQueue),
  };
}

const NO_CALLER = { peer: { pid: process.pid }, signal: NEVER };

export interface Attachments {
  readonly service: AttachmentService;
  readonly deletes: DeleteQueue;
}

/** Begins to finish what an earlier agent left undone. */
export function startAttachments(
  context: AgentContext,
  { hosts, locks, queue }: Networks,
  { manager, history }: { readonly manager: EndpointManager; readonly history: History },
  ranges: NodeRanges,
  policy: Pick<AgentPolicy, "calls">,
): Attachments {
  const { options, health, log, tracing } = context;
  const deletes: DeleteQueue = new DeleteQueue({
    files: queue,
    // A queued DEL has no caller that could give up.
    serve: (call) => service.serve(call, NO_CALLER),
    find: (attachment) => manager.find(attachment),
    log,
  });
  const service: AttachmentService = new AttachmentService({
    hosts,
    records: manager,
    locks,
    deletes,
    newCluster: new NewCluster({ limitMs: options["first-pool-wait"] * SECOND_MS, clock: SYSTEM_CLOCK, health: health.health }),
    ...ipamTypeOf(context),
    policy: policy.calls,
    forgetRegistered: (record) => forgetRegistered(record, { endpoints: manager, release: ranges.release }),
    notReady: () => health.health.notReady(),
    tracing,
    onFailedAdd: failedAddReporter(context),
    history,
  });
  manager.finishBy((record) => service.finish(record));
  return { service, deletes };
}

function failedAddReporter({ cluster, events }: AgentContext): ((served: ServedCall, error: unknown) => void) | undefined {
  if (cluster === undefined || events === undefined) return undefined;
  const parts = { events, podOf: (key: string) => cluster.pods.get(key), clock: SYSTEM_CLOCK };
  return ({ call, secrets }, error) => setImmediate(() => reportFailedAdd({ args: call.request.args, secrets }, error, parts));
}

function ipamTypeOf({ options }: AgentContext): { readonly ipamType?: string } {
  return options.ipam === "host-scope" ? { ipamType: HOST_SCOPE } : {};
}

export interface ForgetParts {
  readonly endpoints: Pick<EndpointManager, "write" | "remove" | "discard" | "retry">;
  /** Gives back an address of this node's range. */
  readonly release: (address: string, token: string) => Promise<void>;
}

/**
 * Forgets an endpoint that was registered (A§2.7): its interface is its maker's, only the record and our addresses are ours.
 * @throws what a release throws: the removal is repeated behind until nothing is left
 */
export async function forgetRegistered(record: EndpointRecord, { endpoints, release }: ForgetParts): Promise<void> {
  // An interrupted registration has taken nothing over: its addresses are still the client's.
  if (isUnfinishedAdd(record)) return endpoints.discard(record);
  const begun = await endpoints.write({ ...record, phase: "deleting:begun" });
  try {
    for (const { address, grant, token } of begun.addresses) {
      if (grant === "file" && token !== undefined) await release(address, token);
    }
  } catch (error) {
    await endpoints.retry(begun, error);
    throw error;
  }
  await endpoints.remove(begun);
}
