/**
 * Opens what every part of the agent is given: who this agent is, its log, its health, its background tasks, the kernel and the cluster.
 * agent/agent.ts starts the parts, and hands each of them this and the few other parts that it needs.
 */

import type { Dataplane } from "../../dataplane/dataplane.ts";
import { JoinedDeletions } from "../../dataplane/linux/deletions.ts";
import { LinuxDataplane } from "../../dataplane/linux/linux-dataplane.ts";
import { HostSockets } from "../../dataplane/netlink/host-sockets.ts";
import { type RunDirectory, readBootId, runDirectory } from "../../handover/run-directory.ts";
import type { Environment } from "../../lib/cni/protocol.ts";
import { chooseDatastore, isKubernetesConfigured } from "../../lib/config/datastore-choice.ts";
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import { blockSelection, type WatchedBlock } from "../../lib/datastore/calico/block.ts";
import type { ApiGroup } from "../../lib/datastore/calico/codec.ts";
import { poolSelection, type WatchedPool } from "../../lib/datastore/calico/pool.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { parseObject } from "../../lib/json/decode.ts";
import { ApiConnection, type OnAnswer } from "../../lib/kubernetes/client/connection.ts";
import { resolveApiConfig } from "../../lib/kubernetes/config/resolve.ts";
import { decodePod, type Pod } from "../../lib/kubernetes/objects.ts";
import { Informers } from "../../lib/kubernetes/watch/informers.ts";
import type { ResourceCache } from "../../lib/kubernetes/watch/resource-cache.ts";
import { type AgentLog, createAgentLog, watchSignals } from "../../lib/resident/agent-log.ts";
import { SECOND_MS } from "../../lib/resident/options.ts";
import { Tasks } from "../../lib/resident/tasks.ts";
import { makeDirectories } from "../../lib/system/files.ts";
import { exitNow } from "../../lib/system/libc.ts";
import { missingCapabilities } from "../../lib/system/privileges.ts";
import { SYSTEM_CLOCK } from "../../lib/system/waiting.ts";
import { EventWriter } from "../observe/events.ts";
import { AgentHealth } from "../observe/health.ts";
import type { OtlpOptions } from "../observe/otlp-tracing.ts";
import { type Tracing, tracedDataplane } from "../observe/tracing.ts";
import { Configuration, datastoreKeys, nameOfNode } from "./configuration.ts";
import { guardedDataplane, NamespaceCanary } from "./guarded-dataplane.ts";
import type { AgentOptions } from "./options.ts";
import { openState, PhaseFile, roomCheck, takeInstanceLock, takeNamespaceLock } from "./run-state.ts";

export interface AgentInput {
  readonly options: AgentOptions;
  readonly env: Environment;
  readonly version: string;
  /** Reads flags, variables and file again, for SIGHUP. @throws TortieError */
  readonly reread: () => AgentOptions;
}

export interface AgentContext extends AsyncDisposable, Omit<AgentInput, "reread"> {
  /** Name of this node. */
  readonly node: string;
  readonly bootId: string;
  readonly run: RunDirectory;
  /** Directory of what this boot's endpoints are recorded in. */
  readonly state: string;
  readonly log: AgentLog;
  readonly phase: PhaseFile;
  readonly configuration: Configuration;
  readonly health: AgentHealth;
  readonly controllers: Tasks;
  readonly host: HostSockets;
  readonly dataplane: Dataplane;
  readonly tracing: Tracing | undefined;
  /** The API server, where there is one: the datastore, or what etcd as the datastore has its pods from. */
  readonly cluster: AgentCluster | undefined;
  /** Writes events, where there is an API server. */
  readonly events: EventWriter | undefined;
  /** Resolves with the name of the signal that ends the process. */
  readonly ended: Promise<string>;
  /** Ends the process at once; whoever started it starts it again. */
  giveUp(message: string): never;
}

const RUN_MODE = 0o755;
/** For the traces of the last calls. */
const TRACES_GRACE_MS = 500;

/**
 * Makes what all parts share; disposing closes it, in reverse.
 * @throws TortieError `privilege-missing` naming the user and what it lacks; `agent-running` where another agent serves the host; what options that lead nowhere throw
 */
export async function openContext({ options, env, version, reread }: AgentInput): Promise<AgentContext> {
  requirePrivileges();
  const signals = watchSignals(() => readAgain(configuration, reread, log));
  await using stack = new AsyncDisposableStack();
  const run = runDirectory(options["run-dir"]);
  makeDirectories(run.path, RUN_MODE);
  stack.use(takeInstanceLock(run.instanceLock));
  const { lock, squatter } = await takeNamespaceLock();
  stack.use(lock);
  const log = createAgentLog(options["log-level"], options["log-file"]);
  stack.defer(() => log.close());
  if (lock === undefined) log.error("a program that is no agent keeps the name that tells agents of one host apart", { user: squatter });
  const giveUp = (message: string): never => {
    log.error(message);
    return exitNow(1);
  };
  const bootId = readBootId();
  const state = openState(run.path, bootId, [run.history]);
  if (state.wasReset) log.info("the machine has been started again: the state of its last boot is dropped");
  const phase = new PhaseFile(run.agentFile, { bootId, version, ipam: options.ipam, pid: process.pid });
  const setLevel = (level: AgentOptions["log-level"]) => log.setLevel(level);
  const configuration = new Configuration({ options, env, version, bootId, phase: () => phase.phase, setLevel });
  const node = nameOfNode(options, env);
  const tracing = await openTracing(env, { endpoint: options["otlp-endpoint"], node, version, log });
  stack.defer(() => tracing?.stop(TRACES_GRACE_MS));
  const host = stack.use(new HostSockets());
  const linux = new LinuxDataplane(host, new JoinedDeletions(host));
  const dataplane = tracedDataplane(guardedDataplane(linux, new NamespaceCanary(giveUp)), tracing);
  const health = stack.use(
    new AgentHealth({
      phase: () => phase.phase,
      port: options["health-port"],
      metricsAddress: options["metrics-address"],
      log,
      controllers: () => controllers.statuses(),
    }),
  );
  health.health.add(roomCheck(run.path, phase));
  const cluster = clusterOf({ options, env, node, log, onAnswer: (...answer) => health.serverAnswered(...answer) });
  if (cluster !== undefined) {
    stack.use(cluster);
    health.watchCluster(() => cluster.informers.states());
  }
  const { connection } = cluster ?? {};
  const events = connection && stack.use(new EventWriter({ connection, node, clock: SYSTEM_CLOCK, log, health: health.health }));
  const controllers = stack.use(
    new Tasks({ maxIntervalMs: options["max-controller-interval"] * SECOND_MS, onRun: (run) => health.controllerRan(run) }),
  );

  const about = { options, env, version, node, bootId, run, state: state.path };
  const parts = { log, phase, configuration, health, controllers, host, dataplane, tracing, cluster, events };
  const made = stack.move();
  return { ...about, ...parts, ended: signals.ended, giveUp, [Symbol.asyncDispose]: () => made.disposeAsync() };
}

/** Reads the configuration again for SIGHUP, and opens the log again. One that is wrong changes nothing. */
function readAgain(configuration: Configuration, reread: AgentInput["reread"], log: AgentLog): void {
  try {
    const later = configuration.reread(reread());
    log.reopen();
    log.info("the configuration was read again", later.length === 0 ? {} : { "needs a restart": later.join(", ") });
  } catch (error) {
    log.error(`the configuration was not read again: ${messageOf(error)}`);
  }
}

/** Refuses to start without capabilities: the agent could serve its API and fail every ADD, which nobody would see at its start. */
function requirePrivileges(): void {
  const missing = missingCapabilities();
  if (missing.length === 0) return;
  const user = process.geteuid?.() ?? "unknown";
  throw new TortieError("privilege-missing", `the agent runs as user ${user} without ${missing.join(" and ")}: it could connect no pod`);
}

/** How often the watch of the node's pods is requested again: the longest time for which a dead connection stays unnoticed. */
const HEARTBEAT_SECONDS = 30;

/** The agent's one connection to the API server. With etcd as the datastore it is used for pods only. */
export interface AgentCluster extends AsyncDisposable {
  readonly connection: ApiConnection;
  readonly informers: Informers;
  /** Calico's resources are there too. */
  readonly isDatastore: boolean;
  /** Of this node, by "namespace/name". */
  readonly pods: ResourceCache<Pod>;
  /** All pools, by one watch for ADDs and routes, which begins when it is first asked for. */
  pools(group: ApiGroup): ResourceCache<WatchedPool>;
  /** All blocks, by one watch for routes and policy, which begins when it is first asked for. */
  blocks(group: ApiGroup): ResourceCache<WatchedBlock | undefined>;
  /** Asks the server. @returns `undefined` when there is no such pod @throws Error when it cannot be found out */
  readPod(key: string): Promise<Pod | undefined>;
}

export interface ClusterOptions {
  readonly options: AgentOptions;
  readonly env: Environment;
  readonly node: string;
  readonly log: Pick<AgentLog, "error">;
  readonly onAnswer?: OnAnswer;
}

/** Begins to watch the node's pods. @throws TortieError as `resolveApiConfig` */
export function clusterOf({ options, env, node, log, onAnswer }: ClusterOptions): AgentCluster | undefined {
  const config = decodeNetworkConfig(datastoreKeys(options));
  const datastore = chooseDatastore(config, env);
  const isThere = datastore === "kubernetes" || (datastore === "etcdv3" && isKubernetesConfigured(config, env));
  if (!isThere) return undefined;
  const connection = new ApiConnection(resolveApiConfig(config, env), onAnswer);
  const informers = new Informers(connection, { onProblem: (message) => log.error(message) });
  let pools: ResourceCache<WatchedPool> | undefined;
  let blocks: ResourceCache<WatchedBlock | undefined> | undefined;
  const pods = informers.watch({
    name: `pods of ${node}`,
    path: "/api/v1/pods",
    fieldSelector: `spec.nodeName=${node}`,
    decode: decodePod,
    heartbeatSeconds: HEARTBEAT_SECONDS,
  });
  return {
    connection,
    informers,
    pods,
    pools(group) {
      // A server has its pools in one group only.
      pools ??= informers.watch(poolSelection(group));
      return pools;
    },
    blocks(group) {
      blocks ??= informers.watch(blockSelection(group));
      return blocks;
    },
    isDatastore: datastore === "kubernetes",
    async readPod(key) {
      const [namespace = "", name = ""] = key.split("/").map(encodeURIComponent);
      const { status, body } = await connection.exchange({ method: "GET", path: `/api/v1/namespaces/${namespace}/pods/${name}` });
      if (status === 404) return undefined;
      if (status !== 200) throw new Error(`the API server answered ${status} when it was asked for pod ${key}`);
      return decodePod(parseObject(body));
    },
    async [Symbol.asyncDispose]() {
      await informers[Symbol.asyncDispose]();
      connection.close();
    },
  };
}

/**
 * Loads OpenTelemetry only where an endpoint is configured.
 * @returns `undefined` where there is none, or one that makes no sense, which the log says
 */
async function openTracing(env: Environment, options: OtlpOptions): Promise<Tracing | undefined> {
  const endpoints = [options.endpoint, env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, env.OTEL_EXPORTER_OTLP_ENDPOINT];
  if (!endpoints.some(Boolean) || env.OTEL_SDK_DISABLED?.toLowerCase() === "true") return undefined;
  try {
    const { OtlpTracing } = await import("../observe/otlp-tracing.ts");
    return new OtlpTracing(options);
  } catch (error) {
    options.log.error(`no traces are sent: ${messageOf(error)}`);
    return undefined;
  }
}
