/**
 * The agent, put together: the only file that knows all its parts (A§0.3). Each part declares what it needs; here it gets it. The steps
 * stand in the order of the contract; nothing after the socket ends the process.
 */

import { hostLinks } from "../dataplane/linux/host-links.ts";
import { JoinedDeletions } from "../dataplane/linux/joined-deletions.ts";
import { LinuxDataplane } from "../dataplane/linux/linux-dataplane.ts";
import { HostSockets } from "../dataplane/netlink/host-sockets.ts";
import { formatAddress } from "../lib/addresses/address.ts";
import type { Environment } from "../lib/cni/environment.ts";
import { HOST_SCOPE } from "../lib/config/ipam-section.ts";
import { messageOf } from "../lib/errors/errors.ts";
import { createAgentLog } from "../lib/resident/agent-log.ts";
import { Controllers } from "../lib/resident/controllers.ts";
import { SECOND_MS } from "../lib/resident/option-entry.ts";
import { watchSignals } from "../lib/resident/signals.ts";
import { SYSTEM_CLOCK } from "../lib/system/clock.ts";
import { exitNow } from "../lib/system/exit.ts";
import { makeDirectories } from "../lib/system/files.ts";
import { AttachmentService } from "./attachments/attachment-service.ts";
import { StoreWitness } from "./attachments/grant-witness.ts";
import { linkModeCheck, refusedLinkMode } from "./attachments/link-mode.ts";
import { NewCluster } from "./attachments/new-cluster.ts";
import { type BlocksOptions, blocksParts } from "./blocks/blocks-parts.ts";
import { clusterOf } from "./compose-cluster.ts";
import { startComparison } from "./compose-comparison.ts";
import { healthOfAgent, measured } from "./compose-health.ts";
import { hostScopeOfAgent } from "./compose-host-scope.ts";
import type { AgentRoutes } from "./compose-routes.ts";
import { startSweeps } from "./compose-sweep.ts";
import { WithoutAgent } from "./compose-without-agent.ts";
import { countAddresses } from "./count-addresses.ts";
import { isConnected } from "./endpoints/build/mend-link.ts";
import { EndpointManager } from "./endpoints/manager.ts";
import { RecordStore } from "./endpoints/record/record-store.ts";
import { checkStatus } from "./health/status.ts";
import { NamespaceCanary } from "./node/canary.ts";
import { GuardedDataplane } from "./node/guarded-dataplane.ts";
import { Nodes } from "./node/nodes.ts";
import { Configuration, nameOfNode } from "./process/configuration.ts";
import { takeInstanceLock } from "./process/instance-lock.ts";
import type { AgentOptions } from "./process/option-table.ts";
import { PhaseFile } from "./process/phase.ts";
import { openState, removeOldStates } from "./process/state-directory.ts";
import { EndpointService } from "./registration/endpoint-service.ts";
import { forgetRegistered } from "./registration/forget-registered.ts";
import { Registration } from "./registration/registration.ts";
import { buildRestored } from "./restore/build-restored.ts";
import { restoreLocal } from "./restore/local-part.ts";
import { readBootId } from "./run-directory/agent-file.ts";
import { AttachmentLocks } from "./run-directory/attachment-locks.ts";
import { runDirectory } from "./run-directory/run-directory.ts";
import { groupNumber } from "./server/access.ts";
import { serveCalls } from "./server/calls.ts";
import type { Handlers } from "./server/handler.ts";
import { LanedAttachments } from "./server/lanes.ts";
import { endpointHandlers } from "./server/routes/endpoints.ts";
import { ipamHandlers } from "./server/routes/ipam.ts";
import { nodeHandlers } from "./server/routes/node.ts";
import { serveApi } from "./server/server.ts";
import { tracedDataplane } from "./trace/traced-parts.ts";
import { openTracing } from "./trace/tracing.ts";
import { untilReady } from "./until-ready.ts";

export interface AgentInput {
  readonly options: AgentOptions;
  readonly env: Environment;
  readonly version: string;
  /** Reads flags, variables and file again, for SIGHUP. @throws TortieError */
  readonly reread: () => AgentOptions;
}

const RUN_MODE = 0o755;
/** SIGTERM ends the process within 5 s; this much of it is for the answers of running calls. */
const GRACE_MS = 3_000;
/** And this much for the traces of the last calls. */
const TRACES_GRACE_MS = 500;

/** Runs until a signal ends it. @returns the exit status @throws TortieError `agent-running` and others before the socket is there */
export async function runAgent({ options, env, version, reread }: AgentInput): Promise<number> {
  const signals = watchSignals(() => reload());
  const run = runDirectory(options["run-dir"]);
  makeDirectories(run.path, RUN_MODE);
  using _lock = takeInstanceLock(run.instanceLock);
  const log = createAgentLog(options["log-level"], options["log-file"]);
  const bootId = readBootId();
  const state = openState(run.path, bootId, [run.deleteQueue, run.direct]);
  if (state.wasReset) log.info("the machine has been started anew: the state of its last boot is dropped");
  const phase = new PhaseFile(run.agentFile, { bootId, version, ipam: options.ipam, pid: process.pid });

  const canary = new NamespaceCanary((message) => {
    log.error(message);
    exitNow(1);
  });
  const node = nameOfNode(options, env);
  const tracing = await openTracing({ endpoint: options["otlp-endpoint"], env, node, version, log });
  using host = new HostSockets();
  const dataplane = tracedDataplane(new GuardedDataplane(new LinuxDataplane(host, new JoinedDeletions(host)), canary), tracing);
  await using health = healthOfAgent({
    phase: () => phase.phase,
    port: options["health-port"],
    metricsAddress: options["metrics-address"],
    log,
    controllers: () => controllers.statuses(),
    sources: {
      endpointStates: () => manager.endpoints().map(({ shownState }) => shownState),
      deleteQueueLength: () => direct.queueLength,
    },
  });
  await using cluster = clusterOf({ options, env, node, log, onAnswer: health.serverAnswered });
  if (cluster !== undefined) health.watchCluster(() => cluster.informers.states());
  const onRun = health.controllerRan;
  await using controllers = new Controllers({ maxIntervalMs: options["max-controller-interval"] * SECOND_MS, onRun });
  const store = new RecordStore(state.path);
  const manager: EndpointManager = new EndpointManager({
    store,
    bootId,
    maxEndpoints: options["max-endpoints"],
    clock: SYSTEM_CLOCK,
    controllers,
    dataplane,
    grants: { isGranted: (record, address) => witness.isGranted(record, address) },
    hold: (attachment, signal) => direct.hold(attachment, signal),
    log,
    onBuilt: health.built,
  });
  countAddresses(manager, health.metrics);
  const restored = restoreLocal({ store, endpoints: manager, links: () => hostLinks(host), clock: SYSTEM_CLOCK, log });
  health.restored(restored);
  const hostScope = hostScopeOfAgent({
    options,
    host,
    node,
    bootId,
    runDirectory: run.path,
    cluster,
    controllers,
    endpointOf: (address) => manager.withAddress(address.family, formatAddress(address))[0]?.id,
    log,
    giveUp(message) {
      log.error(message);
      exitNow(1);
    },
  });
  health.health.add(hostScope.check);
  await hostScope.regrant(manager, health.health);
  const refusal = refusedLinkMode(options["datapath-mode"]);
  if (refusal !== undefined) {
    log.error(`no pod can be added: ${refusal.word}: ${refusal.message}`);
    health.health.add(linkModeCheck(refusal));
  }
  const blocks: BlocksOptions = {
    kubeconfig: options.kubeconfig,
    agentEnv: env,
    log,
    onWrite: (outcome, parts) => health.metrics.blockWritten(outcome, parts),
    tracing,
    hasOwnBlocks: options.ipam !== "host-scope",
  };
  let routes: AgentRoutes | undefined;
  const knownRanges = () => [...hostScope.parts.knownRanges(), ...(routes?.ranges() ?? [])];
  const nodes = new Nodes({ log, parts: () => ({ dataplane, ...hostScope.parts, knownRanges, ...blocksParts(blocks) }) });
  const ipamType = options.ipam === "host-scope" ? { ipamType: HOST_SCOPE } : {};
  const files = () => hostScope.nodeCidr.hostScope.files;
  const witness = new StoreWitness({ nodes, ...ipamType, files });
  const locks = new AttachmentLocks(run.attachments);
  const attachments: AttachmentService = new AttachmentService({
    nodes,
    records: manager,
    locks,
    takeOver: (attachment, signal) => direct.takeOver(attachment, signal),
    takeOverLocked: (attachment) => direct.takeOverLocked(attachment),
    queuedDelete: (attachment) => direct.queuedDelete(attachment),
    newCluster: new NewCluster({ limitMs: options["first-pool-wait"] * SECOND_MS, clock: SYSTEM_CLOCK, health: health.health }),
    ...ipamType,
    forgetRegistered: (record) => forgetRegistered(record, { endpoints: manager, release: hostScope.release }),
    assertReady: () => checkStatus(health.health),
    refusal,
    tracing,
  });
  const direct: WithoutAgent = new WithoutAgent({ run, locks, manager, attachments, log });
  // Before what an earlier agent left undone is removed: a plugin may have done it anew meanwhile.
  await direct.takeOverAll();
  manager.finishBy((record) => attachments.finish(record));

  const configuration = new Configuration({
    options,
    env,
    version,
    bootId,
    phase: () => phase.phase,
    addressing: () => hostScope.ipam?.addressing(),
    setLevel: (level) => log.setLevel(level),
  });
  const endpoints = new EndpointService({
    manager,
    registration: new Registration(manager, hostScope),
    removal: (record) => attachments.finish(record),
    isConnected: (record) => isConnected(record, dataplane),
    log,
  });
  const handlers: Handlers = {
    ...endpointHandlers(endpoints),
    ...ipamHandlers(hostScope.ipam),
    ...nodeHandlers({
      configuration: () => configuration.show(),
      configure: (given) => configuration.change(given),
      health: async () => health.health.document(),
      controllers: () => controllers.statuses(),
      metrics: () => health.metrics.list(),
      metricsText: () => health.metrics.text(),
    }),
    cniStatus: () => {
      checkStatus(health.health);
      return { status: 200, body: "" };
    },
  };
  const onError = (message: string, error: unknown) => log.error(message, { error });
  const server = await serveApi({
    version,
    socket: run.socket,
    group: groupNumber(options["socket-group"]),
    handlers,
    onError,
    onAnswer: health.apiAnswered,
  });
  const service = measured(new LanedAttachments(attachments), health.standstill);
  const calls = await serveCalls({ socket: run.calls, directory: run.path, service, onError, onAnswer: health.callAnswered });
  phase.set("local");
  await health.listen();
  log.info("the API is served", { socket: run.socket });
  direct.start();
  removeOldStates(run.path);
  hostScope.start();
  let isRestored = false;
  const compare = startComparison({ manager, witness, files, controllers, health, isRestored: () => isRestored, log });
  void buildRestored(manager, restored, { clock: SYSTEM_CLOCK, log }).then(() => {
    isRestored = true;
    compare();
  });
  startSweeps({
    manager,
    node,
    host,
    dataplane,
    controllers,
    cluster,
    health,
    directDirectory: run.direct,
    locks,
    nodes,
    hostScope: () => hostScope.nodeCidr.hostScope,
    isRestored: () => isRestored,
    remove: (record) => attachments.finish(record),
    log,
  });
  if (options["node-routes"] !== "off") {
    const { startNodeRoutes } = await import("./compose-routes.ts");
    const { nodeCidr } = hostScope;
    routes = await startNodeRoutes({ options, env, node, host, cluster, controllers, health, dataplane, nodes, nodeCidr, log });
  }
  if (cluster !== undefined && options["endpoint-objects"]) {
    const { startEndpointObjects } = await import("./compose-objects.ts");
    const jobsDirectory = `${state.path}/jobs`;
    const qps = options["object-qps"];
    startEndpointObjects({
      node: { name: node },
      manager,
      controllers,
      cluster,
      health,
      jobsDirectory,
      qps,
      isRestored: () => isRestored,
      log,
    });
  }
  const ending = new AbortController();
  if (options["manage-cni"]) {
    const { manageCni } = await import("./compose-cni.ts");
    health.health.add(manageCni(env, log, ending.signal));
  }
  untilReady({ cluster, rangesKnown: hostScope.rangesKnown, health: health.health }, ending.signal).then(
    () => phase.set("ready"),
    (error: unknown) => log.debug("the agent ended before it was ready", { error }),
  );

  function reload(): void {
    try {
      const later = configuration.reread(reread());
      log.reopen();
      log.info("the configuration was read again", later.length === 0 ? {} : { "needs a restart": later.join(", ") });
    } catch (error) {
      log.error(`the configuration was not read again: ${messageOf(error)}`);
    }
  }

  const signal = await signals.ended;
  ending.abort(new Error("the agent ends"));
  log.info(`${signal}: the agent ends`);
  await Promise.all([calls.stop(GRACE_MS), server.stop(GRACE_MS)]);
  await Promise.race([direct.stop(), Bun.sleep(GRACE_MS / 3)]);
  phase.set("stopped");
  await nodes[Symbol.asyncDispose]();
  await tracing?.stop(TRACES_GRACE_MS);
  await log.close();
  return 0;
}
