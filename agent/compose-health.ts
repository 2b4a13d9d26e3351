/** The agent's health and figures, plugged to its parts (A§8.2, A§8.3). */
import { messageOf } from "../lib/errors/errors.ts";
import type { OnAnswer } from "../lib/kubernetes/watch/connection.ts";
import type { CacheState } from "../lib/kubernetes/watch/resource-cache.ts";
import type { AgentLog } from "../lib/resident/agent-log.ts";
import { apiServerCheck, CredentialsCheck, controllersCheck, KernelCheck, LoopCheck, watchesCheck } from "../lib/resident/checks.ts";
import { Health } from "../lib/resident/health.ts";
import { keepHealthServed } from "../lib/resident/health-server.ts";
import { serveMetrics } from "../lib/resident/metrics-address.ts";
import type { ControllerRun, ControllerStatus } from "../lib/resident/parameters.ts";
import { type Clock, SYSTEM_CLOCK } from "../lib/system/clock.ts";
import type { OperationName } from "./api/operations.ts";
import { OPERATIONS } from "./api/operations.ts";
import type { BuildReport } from "./endpoints/build/builds.ts";
import { levelName } from "./endpoints/build/levels.ts";
import type { CniVerb } from "./forward/protocol.ts";
import { AgentMetrics, type MetricSources } from "./metrics/metrics.ts";
import { Standstill } from "./metrics/standstill.ts";
import type { Phase } from "./process/phase.ts";
import type { LocalReport } from "./restore/local-part.ts";
import type { AttachmentService as AttachmentPort } from "./server/attachment-service.ts";

export interface AgentHealthOptions {
  readonly phase: () => Phase;
  /** `--health-port`; 0: none. */
  readonly port: number;
  /** `--metrics-address`. */
  readonly metricsAddress?: string | undefined;
  readonly log: Pick<AgentLog, "debug" | "info" | "error">;
  readonly controllers: () => readonly ControllerStatus[];
  readonly sources: Partial<MetricSources>;
  readonly clock?: Clock;
}

export interface AgentHealth extends AsyncDisposable {
  readonly health: Health<Phase>;
  readonly metrics: AgentMetrics;
  /** Of calls of plugins. */
  readonly standstill: Standstill;
  readonly kernel: KernelCheck;
  /** Of each request to the agent's API. */
  readonly apiAnswered: (operation: OperationName, status: number, milliseconds: number) => void;
  /** Of each call of a plugin. */
  readonly callAnswered: (verb: CniVerb, status: number, milliseconds: number) => void;
  readonly controllerRan: (run: ControllerRun) => void;
  readonly built: (report: BuildReport) => void;
  /** What the local part of the restore has found. */
  readonly restored: (report: LocalReport) => void;
  /** Of each request to the API server. */
  readonly serverAnswered: OnAnswer;
  /** The agent works with an API server: its watches and credentials count from now on. */
  watchCluster(states: () => readonly CacheState[]): void;
  /** Opens the ports; one that is taken is a finding. */
  listen(): Promise<void>;
}

export function healthOfAgent(options: AgentHealthOptions): AgentHealth {
  const { phase, port, metricsAddress, log, controllers, sources, clock = SYSTEM_CLOCK } = options;
  const health = new Health(phase, clock);
  const standstill = new Standstill();
  const loop = new LoopCheck(clock, () => standstill.longestMs);
  const metrics = new AgentMetrics({
    waits: () => health.waits,
    longestStandstillMs: () => loop.longestMs,
    isReady: () => health.notReady().length === 0,
    checks: () => health.document().checks,
    ...sources,
  });
  const [kernel, credentials] = [new KernelCheck(clock), new CredentialsCheck()];
  for (const check of [loop.check, kernel.check, controllersCheck(controllers)]) health.add(check);
  const timer = setInterval(() => {
    loop.turn();
    health.look();
  }, LoopCheck.TURN_MS);
  timer.unref();
  const servers = new AsyncDisposableStack();
  return {
    health,
    metrics,
    standstill,
    kernel,
    apiAnswered(operation, status, milliseconds) {
      const { path, method } = OPERATIONS[operation];
      metrics.apiAnswered(path, method, status, milliseconds);
    },
    callAnswered(verb, status, milliseconds) {
      metrics.apiAnswered(`/cni/${verb}`, "CNI", status, milliseconds);
      metrics.cniTook(verb, "total", milliseconds);
    },
    controllerRan(run) {
      metrics.controllerRan(run);
      if (run.outcome === "failure") log.error(`controller ${run.name}: ${run.message ?? "failed"}`);
      else if (!run.quiet) log.debug(`controller ${run.name} has run`, { seconds: run.seconds });
    },
    built({ outcome, level, waitedMs, tookMs }) {
      metrics.built(levelName(level), outcome, tookMs);
      metrics.waitedInQueue("build", waitedMs);
    },
    restored({ ready, undone, deleting, waiting, bad }) {
      for (const [outcome, count] of Object.entries({ ready: ready.length, undone, deleting, waiting, bad }))
        metrics.restored(outcome, count);
    },
    serverAnswered(call, status) {
      credentials.note(call, status);
      metrics.asked(call.method, status);
    },
    watchCluster(states) {
      health.add(apiServerCheck(states, clock));
      health.add(watchesCheck(states));
      health.add(credentials.check);
    },
    async listen() {
      const find = (text: string | undefined) => health.find("metrics-address", text);
      servers.use(await serveMetrics(metricsAddress, metrics, { finding: find, info: log.info, error: log.error }));
      if (port === 0) return;
      const server = await keepHealthServed(
        { port, health, metrics },
        {
          onServed(opened) {
            health.find("health-port", undefined);
            log.info("health is served", { port: opened });
          },
          onTaken(error) {
            const finding = `port ${port} for /livez, /readyz and /metrics cannot be opened, and is tried again: ${messageOf(error)}`;
            health.find("health-port", finding);
            log.error(finding);
          },
        },
      );
      servers.use(server);
    },
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      await servers.disposeAsync();
    },
  };
}

/** The calls, timed for the longest standstill. */
export function measured(service: AttachmentPort, standstill: Standstill): AttachmentPort {
  return {
    serve: (verb, body, context) => standstill.during(() => service.serve(verb, body, context)),
    isKnown: (body) => service.isKnown(body),
  };
}
