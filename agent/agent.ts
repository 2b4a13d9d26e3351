/**
 * Starts the parts of the agent in the order of the contract (A§0.3). Each is given the context and the parts that it needs. Nothing after
 * the socket ends the process.
 */

import { hasFelixChains } from "../dataplane/linux/host-facts.ts";
import type { Health } from "../lib/resident/health.ts";
import { untilAborted } from "../lib/system/waiting.ts";
import { startApi } from "./api/start.ts";
import { holdAttachment } from "./attachments/agent-away.ts";
import { openNetworks, startAttachments } from "./attachments/start.ts";
import { type RestoredEndpoints, startEndpoints } from "./endpoints/start.ts";
import { warnOfPolicies } from "./observe/health.ts";
import { startRanges } from "./ranges/start.ts";
import type { AgentRoutes } from "./routes/start.ts";
import { type AgentCluster, type AgentContext, type AgentInput, openContext } from "./start/context.ts";
import { removeOldStates } from "./start/run-state.ts";
import { startComparison } from "./sweep/comparison.ts";
import { startSweeps } from "./sweep/start.ts";

/** SIGTERM ends the process within 5 s; this much of it is for the answers of running calls. */
const GRACE_MS = 3_000;

/** Runs until a signal ends it. @returns the exit status @throws TortieError `agent-running` and others before the socket is there */
export async function runAgent(input: AgentInput): Promise<number> {
  await using context = await openContext(input);
  const { options, run, phase, health, log } = context;
  let routes: AgentRoutes | undefined;

  const ranges = startRanges(context);
  const networks = openNetworks(context, ranges, () => [...ranges.parts.knownRanges(), ...(routes?.ranges() ?? [])]);
  await using _networks = networks.nodes;
  const endpoints = startEndpoints(context, {
    grants: networks.witness,
    hold: (attachment, signal) => holdAttachment(networks, attachment, signal),
  });
  const { manager, isRestored } = endpoints;
  await ranges.join(manager);
  const { service, away } = await startAttachments(context, networks, manager, ranges);
  health.watchEndpoints({
    endpointStates: () => manager.endpoints().map(({ shownState }) => shownState),
    queueLength: () => away.deletes.size,
  });

  const api = await startApi(context, { manager, service, ranges });
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
    routes = await startNodeRoutes(context, { nodes: networks.nodes, nodeCidr: ranges.nodeCidr });
  }
  const ending = new AbortController();
  await startOnRequest(context, endpoints, ending.signal);
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

/** Starts what an option asks for; a node without it loads nothing of it. */
async function startOnRequest(context: AgentContext, endpoints: RestoredEndpoints, ending: AbortSignal): Promise<void> {
  const { options, env, host, cluster, controllers, health, log } = context;
  if (cluster?.isDatastore && options["policy-warning"]) {
    const { connection } = cluster;
    warnOfPolicies({ connection, hasFelix: () => hasFelixChains(host), controllers, health: health.health, log });
  }
  if (options["endpoint-objects"]) {
    const { startEndpointObjects } = await import("./objects/start.ts");
    startEndpointObjects(context, endpoints);
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
