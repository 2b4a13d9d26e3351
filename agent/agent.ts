/**
 * Starts the parts of the agent in the order of the contract (A§0.3). Each is given the context and the parts that it needs. Nothing after
 * the socket ends the process.
 */

import { startRanges } from "./addresses/ranges/start.ts";
import { startApi } from "./api/start.ts";
import { holdAttachment } from "./attachments/delete-queue.ts";
import { openNetworks, startAttachments } from "./attachments/start.ts";
import { type RestoredEndpoints, startEndpoints } from "./endpoints/start.ts";
import { type AgentIdentities, startIdentities } from "./policy/identities/start.ts";
import type { AgentPolicy, startPolicy } from "./policy/start.ts";
import { warnOfUnenforced } from "./policy/unenforced.ts";
import type { AgentRoutes } from "./routes/start.ts";
import { type AgentContext, type AgentInput, openContext } from "./start/context.ts";
import { untilReady } from "./start/ready.ts";
import { removeOldStates } from "./start/run-state.ts";
import { startComparison } from "./sweep/comparison.ts";
import { startSweeps } from "./sweep/start.ts";
import { startTakeOver } from "./take-over/start.ts";

/** SIGTERM ends the process within 5 s; this much of it is for the answers of running calls. */
const GRACE_MS = 3_000;

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
  await using policy = await policyOf(context, { manager, identities });
  const { service, deletes } = startAttachments(context, networks, endpoints, ranges, policy);
  await using takeOver = await startTakeOver(context, { manager, networks, policy });
  void takeOver.known.then(() => policy.restored());
  if (options.policy !== "off") health.metrics.watchPolicy(() => policy.view());
  health.watchEndpoints({
    endpointStates: () => manager.endpoints().map(({ shownState }) => shownState),
    queueLength: () => deletes.size,
  });

  const api = await startApi(context, { manager, service, ranges, policy, identities });
  phase.set("local");
  await health.listen();
  log.info("the API is served", { socket: run.socket });

  deletes.start();
  removeOldStates(run.path);
  ranges.start();
  const compare = startComparison(context, { manager, isRestored, witness: networks.witness, files: networks.files });
  void endpoints.build().then(compare);
  const remove = (record: Parameters<typeof service.finish>[0]) => service.finish(record);
  startSweeps(context, {
    ...endpoints,
    ...networks,
    hostScope: () => ranges.nodeCidr.hostScope,
    remove,
    isLeftToPlugins: (network) => takeOver.isLeftToPlugins(network),
  });
  if (options["node-routes"] !== "off") {
    const { startNodeRoutes } = await import("./routes/start.ts");
    routes = await startNodeRoutes(context, { hosts: networks.hosts, nodeCidr: ranges.nodeCidr });
  }
  const ending = new AbortController();
  warnOfUnenforced(context, policy);
  await startOnRequest(context, endpoints, identities, ending.signal);
  untilReady({ ...context, rangesKnown: ranges.rangesKnown, health: health.health }, ending.signal).then(
    () => phase.set("ready"),
    (error: unknown) => log.debug("the agent ended before it was ready", { error }),
  );

  const signal = await context.ended;
  ending.abort(new Error("the agent ends"));
  log.info(`${signal}: the agent ends`);
  await api.stop(GRACE_MS);
  await Promise.race([deletes.stop(), Bun.sleep(GRACE_MS / 3)]);
  phase.set("stopped");
  return 0;
}

/** Begins with policy, or takes away what an earlier agent left of it. Loads the one or the other. */
async function policyOf(context: AgentContext, parts: Parameters<typeof startPolicy>[1]): Promise<AgentPolicy> {
  if (context.options.policy === "off") return (await import("./policy/off.ts")).endPolicy(context);
  return (await import("./policy/start.ts")).startPolicy(context, parts);
}

/** Starts what an option asks for; a node without it loads nothing of it. */
async function startOnRequest(context: AgentContext, endpoints: RestoredEndpoints, identities: AgentIdentities, ending: AbortSignal) {
  const { options, env, health, log } = context;
  if (options["endpoint-objects"]) {
    const { startEndpointObjects } = await import("./objects/start.ts");
    startEndpointObjects(context, endpoints, identities);
  }
  if (options["manage-cni"]) {
    const { manageCni } = await import("./start/manage-cni.ts");
    health.health.add(manageCni(env, log, ending));
  }
}
