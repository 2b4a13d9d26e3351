/**
 * Starts the parts of the agent in the order of the contract (A§0.3). Each is given the context and the parts that it needs. Nothing after
 * the socket ends the process.
 */

import { hasFelixChains } from "../dataplane/linux/host-facts.ts";
import { messageOf } from "../lib/errors/errors.ts";
import type { Health } from "../lib/resident/health.ts";
import { untilAborted } from "../lib/system/waiting.ts";
import { NO_POLICY } from "../main-plugin/policy.ts";
import { startRanges } from "./addresses/ranges/start.ts";
import { startApi } from "./api/start.ts";
import { holdAttachment } from "./attachments/agent-away.ts";
import { openNetworks, startAttachments } from "./attachments/start.ts";
import type { EndpointManager } from "./endpoints/manager.ts";
import { type RestoredEndpoints, startEndpoints } from "./endpoints/start.ts";
import { warnOfPolicies } from "./observe/health.ts";
import { type AgentIdentities, startIdentities } from "./policy/identities/start.ts";
import type { AgentPolicy } from "./policy/start.ts";
import type { AgentRoutes } from "./routes/start.ts";
import { type AgentCluster, type AgentContext, type AgentInput, openContext } from "./start/context.ts";
import { removeOldStates } from "./start/run-state.ts";
import { startComparison } from "./sweep/comparison.ts";
import { startSweeps } from "./sweep/start.ts";

/** SIGTERM ends the process within 5 s; this much of it is for the answers of running calls. */
const GRACE_MS = 3_000;

const WHY_OFF = "policy is not enforced: the agent was started with --policy off";

/** Runs until a signal ends it. @returns the exit status @throws TortieError `agent-running` and others before the socket is there */
export async function runAgent(input: AgentInput): Promise<number> {
  await using context = await openContext(input);
  const { options, run, phase, health, log } = context;
  let routes: AgentRoutes | undefined;

  const ranges = startRanges(context);
  const networks = openNetworks(context, ranges, () => [...ranges.parts.knownRanges(), ...(routes?.ranges() ?? [])]);
  await using _networks = networks.hosts;
  const endpoints = startEndpoints(context, {
    grants: networks.witness,
    hold: (attachment, signal) => holdAttachment(networks, attachment, signal),
  });
  const { manager, isRestored } = endpoints;
  await ranges.join(manager);
  await using identities = startIdentities(context, manager);
  await using policy = await policyOf(context, manager, identities);
  const { service, away } = await startAttachments(context, networks, endpoints, ranges, policy);
  policy.restored();
  if (options.policy !== "off") health.metrics.watchPolicy(() => policy.view());
  health.watchEndpoints({
    endpointStates: () => manager.endpoints().map(({ shownState }) => shownState),
    queueLength: () => away.deletes.size,
  });

  const api = await startApi(context, { manager, service, ranges, policy, identities });
  phase.set("local");
  await health.listen();
  log.info("the API is served", { socket: run.socket });

  away.start();
  removeOldStates(run.path);
  ranges.start();
  const compare = startComparison(context, { manager, isRestored, witness: networks.witness, files: networks.files });
  void endpoints.build().then(compare);
  const remove = (record: Parameters<typeof service.finish>[0]) => service.finish(record);
  startSweeps(context, { ...endpoints, ...networks, hostScope: () => ranges.nodeCidr.hostScope, remove });
  if (options["node-routes"] !== "off") {
    const { startNodeRoutes } = await import("./routes/start.ts");
    routes = await startNodeRoutes(context, { hosts: networks.hosts, nodeCidr: ranges.nodeCidr });
  }
  const ending = new AbortController();
  await startOnRequest(context, { endpoints, policy, identities }, ending.signal);
  untilReady({ ...context, rangesKnown: ranges.rangesKnown, health: health.health }, ending.signal).then(
    () => phase.set("ready"),
    (error: unknown) => log.debug("the agent ended before it was ready", { error }),
  );

  const signal = await context.ended;
  ending.abort(new Error("the agent ends"));
  log.info(`${signal}: the agent ends`);
  await api.stop(GRACE_MS);
  await Promise.race([away.stop(), Bun.sleep(GRACE_MS / 3)]);
  phase.set("stopped");
  return 0;
}

/** Begins with policy, or takes away what an earlier agent left of it. */
async function policyOf(context: AgentContext, manager: EndpointManager, identities: AgentIdentities): Promise<AgentPolicy> {
  if (context.options.policy !== "off") {
    const { startPolicy } = await import("./policy/start.ts");
    return startPolicy(context, { manager, identities });
  }
  const { openNode } = await import("./policy/kernel.ts");
  const { host, run, log } = context;
  await openNode(host, run).catch((error: unknown) => log.error(`policy is off, but stays in the kernel: ${messageOf(error)}`));
  return {
    calls: NO_POLICY,
    view: () => undefined,
    whyOff: () => WHY_OFF,
    restored: () => undefined,
    underWay: undefined,
    [Symbol.asyncDispose]: async () => undefined,
  };
}

interface ShownParts {
  readonly endpoints: RestoredEndpoints;
  readonly policy: AgentPolicy;
  readonly identities: AgentIdentities;
}

/** Starts what an option asks for; a node without it loads nothing of it. */
async function startOnRequest(context: AgentContext, { endpoints, policy, identities }: ShownParts, ending: AbortSignal): Promise<void> {
  const { options, env, host, cluster, controllers, health, log } = context;
  if (cluster?.isDatastore && options["policy-warning"]) {
    const { connection } = cluster;
    warnOfPolicies({
      connection,
      enforcer: () => (policy.view() !== undefined ? "Tortie enforces" : hasFelixChains(host) ? "Felix enforces" : undefined),
      controllers,
      health: health.health,
      log,
    });
  }
  if (options["endpoint-objects"]) {
    const { startEndpointObjects } = await import("./objects/start.ts");
    startEndpointObjects(context, endpoints, identities);
  }
  if (options["manage-cni"]) {
    const { manageCni } = await import("./start/manage-cni.ts");
    health.health.add(manageCni(env, log, ending));
  }
}

export interface ReadyParts {
  readonly cluster: Pick<AgentCluster, "pods"> | undefined;
  /** Ends when this node's ranges are known; at once where addresses come from blocks. */
  readonly rangesKnown: () => Promise<void>;
  readonly health: Pick<Health, "waitFor">;
}

/** Waits for what phase `ready` needs (A§0.3, steps 6 and 7); `/healthz` shows each wait as long as it lasts. @throws the signal's reason */
export async function untilReady({ cluster, rangesKnown, health }: ReadyParts, signal: AbortSignal): Promise<void> {
  await Promise.all([
    waited(health, "the pods of this node, from the API server", cluster?.pods.untilSynced(signal)),
    waited(health, "the address ranges of this node", untilAborted(rangesKnown(), signal)),
  ]);
}

async function waited(health: ReadyParts["health"], what: string, work: Promise<void> | undefined): Promise<void> {
  const over = health.waitFor(what);
  try {
    await work;
  } finally {
    over();
  }
}
