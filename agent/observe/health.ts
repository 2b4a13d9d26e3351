/** Puts the agent's health and figures together (A§8.2, A§8.3). */

import type { AgentFile } from "../../handover/run-directory.ts";
import { messageOf } from "../../lib/errors/errors.ts";
import type { OnAnswer } from "../../lib/kubernetes/client/connection.ts";
import type { CacheState } from "../../lib/kubernetes/watch/resource-cache.ts";
import type { AgentLog } from "../../lib/resident/agent-log.ts";
import {
  apiServerCheck,
  CredentialsCheck,
  controllersCheck,
  Health,
  KernelCheck,
  LoopCheck,
  watchesCheck,
} from "../../lib/resident/health.ts";
import { keepHealthServed, serveMetrics } from "../../lib/resident/health-server.ts";
import { newsOf, type TaskRun, type TaskStatus } from "../../lib/resident/tasks.ts";
import { type Clock, SYSTEM_CLOCK } from "../../lib/system/waiting.ts";
import { AgentMetrics, Standstill } from "./metrics.ts";

export interface AgentHealthOptions {
  readonly phase: () => AgentFile["phase"];
  /** `--health-port`; 0: none. */
  readonly port: number;
  /** `--metrics-address`. */
  readonly metricsAddress?: string;
  readonly log: Pick<AgentLog, "debug" | "info" | "error">;
  readonly controllers: () => readonly TaskStatus[];
  readonly clock?: Clock;
}

/** Takes what parts of the agent report, and answers for it: checks and findings, figures, and the addresses that serve both. */
export class AgentHealth implements AsyncDisposable {
  readonly health: Health<AgentFile["phase"]>;
  readonly metrics: AgentMetrics;
  /** Of calls of plugins. */
  readonly standstill = new Standstill();
  readonly kernel: KernelCheck;
  readonly #options: AgentHealthOptions;
  readonly #clock: Clock;
  readonly #credentials = new CredentialsCheck();
  readonly #servers = new AsyncDisposableStack();
  #endpoints: WatchedEndpoints = { endpointStates: () => [], queueLength: () => 0 };

  constructor(options: AgentHealthOptions) {
    const { phase, controllers, clock = SYSTEM_CLOCK } = options;
    this.#options = options;
    this.#clock = clock;
    const health = new Health(phase, clock);
    const loop = new LoopCheck(clock, () => this.standstill.longestMs);
    this.health = health;
    this.metrics = new AgentMetrics({
      waits: () => health.waits,
      longestStandstillMs: () => loop.longestMs,
      isReady: () => health.notReady().length === 0,
      checks: () => health.document().checks,
      endpointStates: () => this.#endpoints.endpointStates(),
      deleteQueueLength: () => this.#endpoints.queueLength(),
    });
    this.kernel = new KernelCheck(clock);
    for (const check of [loop.check, this.kernel.check, controllersCheck(controllers)]) health.add(check);
    const timer = setInterval(() => {
      loop.turn();
      health.look();
    }, LoopCheck.TURN_MS);
    timer.unref();
    this.#servers.defer(() => clearInterval(timer));
  }

  controllerRan(run: TaskRun): void {
    const { log } = this.#options;
    this.metrics.controllerRan(run);
    const news = newsOf(run);
    if (news !== undefined) log[run.outcome === "failure" ? "error" : "info"](`controller ${news}`);
    else if (run.outcome === "success" && !run.quiet) log.debug(`controller ${run.name} has run`, { seconds: run.seconds });
  }

  /** Notes the answer to each request to the API server. */
  serverAnswered(...[call, status, , fault]: Parameters<OnAnswer>): void {
    this.#credentials.note(status, fault);
    this.metrics.asked(call.method, status);
  }

  /** Counts the watches of an API server and the agent's credentials for it from now on. */
  watchCluster(states: () => readonly CacheState[]): void {
    for (const check of [apiServerCheck(states, this.#clock), watchesCheck(states), this.#credentials.check]) this.health.add(check);
  }

  /** Counts the endpoints by their shown states, and the DELs that wait. */
  watchEndpoints(watched: WatchedEndpoints): void {
    this.#endpoints = watched;
  }

  /** Opens the ports; one that is taken is a finding. */
  async listen(): Promise<void> {
    const { health, metrics } = this;
    const { port, metricsAddress, log } = this.#options;
    const finding = (text: string | undefined) => health.find("metrics-address", text);
    this.#servers.use(await serveMetrics(metricsAddress, metrics, { finding, info: log.info, error: log.error }));
    if (port === 0) return;
    const server = await keepHealthServed(
      { port, health, metrics },
      {
        onServed(opened) {
          health.find("health-port", undefined);
          log.info("health is served", { port: opened });
        },
        onTaken(error) {
          const taken = `port ${port} for /livez, /readyz and /metrics cannot be opened, and is tried again: ${messageOf(error)}`;
          health.find("health-port", taken);
          log.error(taken);
        },
      },
    );
    this.#servers.use(server);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#servers.disposeAsync();
  }
}

interface WatchedEndpoints {
  readonly endpointStates: () => readonly string[];
  readonly queueLength: () => number;
}

/** Returns the key of findings about an endpoint's addresses, at a restore and later: the newest one replaces the others. */
export function addressFinding(id: number): string {
  return `address-conflict ${id}`;
}
