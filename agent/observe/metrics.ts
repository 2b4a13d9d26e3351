/** Counts the agent's figures for Prometheus (A§8.2). Parts of the agent count with these functions, or are asked when the metrics are read. */

import { monitorEventLoopDelay } from "node:perf_hooks";
import { Figures } from "../../lib/resident/figures.ts";
import { CHECK_VALUES, type CheckState } from "../../lib/resident/health.ts";
import type { TaskRun } from "../../lib/resident/tasks.ts";
import { type PolicyFigureSource, PolicyMetrics } from "./policy-metrics.ts";

const PREFIX = "tortie_";
/** From what an answer out of memory takes to what a waiting ADD takes. */
const SECONDS = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** What a sweep or a comparison finds (docs/reference/agent.md). */
const FINDINGS = [
  "endpoint-without-link",
  "endpoint-without-pod",
  "link-without-endpoint",
  "unfinished-link",
  "grant-without-endpoint",
  "allocation-without-endpoint",
  "address-lost",
  "address-conflict",
  "drift",
] as const;

/** What is asked at the moment of reading. */
export interface MetricSources {
  /** Shown states of all endpoints. */
  endpointStates(): readonly string[];
  /** DELs that wait. */
  deleteQueueLength(): number;
  /** What the agent waits for. */
  waits(): readonly string[];
  /** Addresses of this node by family and state; empty where they are not counted. */
  addresses(): readonly { readonly family: 4 | 6; readonly state: string; readonly count: number }[];
  /** Milliseconds. */
  longestStandstillMs(): number;
  isReady(): boolean;
  /** Checks of the agent's health. */
  checks(): readonly { readonly name: string; readonly state: CheckState }[];
}

/** As `GET /metrics/` lists them (A§2.3). */
export interface MetricValue {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export class AgentMetrics extends Figures {
  readonly #sources: Partial<MetricSources>;
  readonly #controllerRuns = this.counter("controllers_runs_total", "Runs of controllers that have ended", ["status"]);
  readonly #controllerSeconds = this.histogram("controllers_runs_duration_seconds", "How long runs of controllers take", ["status"]);
  readonly #apiSeconds = this.histogram("api_process_time_seconds", "How long requests to the agent's API take", [
    "path",
    "method",
    "return_code",
  ]);
  readonly #cniSeconds = this.histogram("cni_seconds", "How long CNI operations and their steps take", ["verb", "step"]);
  readonly #builds = this.counter("endpoint_regenerations", "Builds of endpoints that have ended", ["outcome"]);
  readonly #buildSeconds = this.histogram("endpoint_regeneration_time_stats_seconds", "How long builds of endpoints take", [
    "scope",
    "status",
  ]);
  readonly #queueSeconds = this.histogram("events_queue_seconds", "How long events wait in the queue of their endpoint", ["event"]);
  readonly #ipamEvents = this.counter("ipam_events_total", "Addresses granted and released", ["action", "family"]);
  readonly #batchSize = this.histogram("ipam_batch_size", "Grants and releases in one write of a block", [], [1, 2, 4, 8, 16, 32, 64]);
  readonly #blockWrites = this.counter("ipam_block_writes_total", "Writes of blocks", ["outcome"]);
  readonly #restored = this.counter("restore_endpoints", "Endpoints read back at start", ["outcome"]);
  readonly #findings = this.counter("sweep_findings_total", "What sweeps have found", ["kind"]);
  #policy: PolicyMetrics | undefined;
  readonly #requests = this.counter("kubernetes_requests_total", "Requests to the API server, of watches the beginning", [
    "method",
    "status",
  ]);

  constructor(sources: Partial<MetricSources> = {}) {
    super(PREFIX, SECONDS);
    this.#sources = sources;
    // Prometheus does not see an increase from nothing to 1, and an alert would miss the first finding.
    for (const kind of FINDINGS) this.sweepFound(kind, 0);
    this.sampled("ready", "1 while an ADD can succeed", [], (gauge) => gauge.set(sources.isReady?.() === true ? 1 : 0));
    this.sampled("check_state", "Checks of health: 0 in order, 1 a warning, 2 a failure", ["check"], (gauge) => {
      for (const { name, state } of sources.checks?.() ?? []) gauge.set({ check: name }, CHECK_VALUES[state]);
    });
    this.sampled("endpoint_count", "Endpoints of this node", [], (gauge) => gauge.set(this.#states().length));
    this.sampled("endpoint_state", "Endpoints by state", ["state"], (gauge) => {
      for (const state of this.#states()) gauge.inc({ state });
    });
    this.sampled("delete_queue_length", "DELs that wait for the agent", [], (gauge) => gauge.set(sources.deleteQueueLength?.() ?? 0));
    this.sampled("waiting", "What the agent waits for", ["what"], (gauge) => {
      for (const what of sources.waits?.() ?? []) gauge.inc({ what });
    });
    this.sampled("ipam_addresses", "Addresses of this node", ["family", "state"], (gauge) => {
      for (const { family, state, count } of sources.addresses?.() ?? []) gauge.set({ family: `ipv${family}`, state }, count);
    });
    this.sampled("event_loop_longest_standstill_seconds", "Longest time in which no call was served, of all calls so far", [], (gauge) =>
      gauge.set((sources.longestStandstillMs?.() ?? 0) / 1000),
    );
    this.sampled("process_resident_memory_bytes", "Memory of the process", [], (gauge) => gauge.set(process.memoryUsage.rss()));
    this.sampled("process_cpu_seconds", "Processor time of the process", [], (gauge) => {
      const { user, system } = process.cpuUsage();
      gauge.set((user + system) / 1_000_000);
    });
  }

  controllerRan({ outcome, seconds }: TaskRun): void {
    this.#controllerRuns.inc({ status: outcome });
    this.#controllerSeconds.observe({ status: outcome }, seconds);
  }

  apiAnswered(path: string, method: string, status: number, milliseconds: number): void {
    this.#apiSeconds.observe({ path, method, return_code: String(status) }, milliseconds / 1000);
  }

  /** @param step `total` for the whole operation */
  cniTook(verb: string, step: string, milliseconds: number): void {
    this.#cniSeconds.observe({ verb, step }, milliseconds / 1000);
  }

  built(scope: string, outcome: "success" | "failure", milliseconds: number): void {
    this.#builds.inc({ outcome });
    this.#buildSeconds.observe({ scope, status: outcome }, milliseconds / 1000);
  }

  waitedInQueue(event: string, milliseconds: number): void {
    this.#queueSeconds.observe({ event }, milliseconds / 1000);
  }

  ipamEvent(action: "allocate" | "release", family: 4 | 6, count = 1): void {
    this.#ipamEvents.inc({ action, family: `ipv${family}` }, count);
  }

  blockWritten(outcome: string, size: number): void {
    this.#blockWrites.inc({ outcome });
    this.#batchSize.observe(size);
  }

  restored(outcome: string, count: number): void {
    this.#restored.inc({ outcome }, count);
  }

  sweepFound(kind: (typeof FINDINGS)[number], count = 1): void {
    this.#findings.inc({ kind }, count);
  }

  asked(method: string, status: number): void {
    this.#requests.inc({ method, status: String(status) });
  }

  /** Shows the figures of policy from now on. @param source `undefined` while policy is not enforced */
  watchPolicy(source: () => PolicyFigureSource | undefined): void {
    this.#policy ??= new PolicyMetrics(this.registry, source);
  }

  /** Counts an attempt to bring a change into the packet filter. */
  policyPassed(outcome: "success" | "failure", milliseconds: number): void {
    this.#policy?.passed(outcome, milliseconds);
  }

  async list(): Promise<readonly MetricValue[]> {
    const metrics = await this.registry.getMetricsAsJSON();
    return metrics.flatMap(({ name, values }) =>
      values.map((entry) => ({
        name: "metricName" in entry && typeof entry.metricName === "string" ? entry.metricName : name,
        labels: Object.fromEntries(Object.entries(entry.labels).map(([key, value]) => [key, String(value)])),
        value: entry.value,
      })),
    );
  }

  #states(): readonly string[] {
    return this.#sources.endpointStates?.() ?? [];
  }
}

/** A standstill is measured too short by at most this. */
const RESOLUTION_MS = 10;
/** The last standstill is noticed only after it. */
const LINGER_MS = 100;
const NANOSECONDS_A_MS = 1_000_000;

/**
 * Measures the longest time in which the event loop did not turn, by the runtime's own measurement, and only while a call is under way: the
 * measurement wakes the process every few milliseconds, which would be most of what an idle agent costs (0.27 s of processor a minute).
 */
export class Standstill {
  readonly #monitor = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  #calls = 0;
  #end: NodeJS.Timeout | undefined;
  /** Up to the end of the last measurement: the runtime forgets it when the next one begins. */
  #before = 0;

  /** Returns milliseconds, the longest since the start; 0 before the first call. */
  get longestMs(): number {
    return Math.max(this.#before, this.#monitor.max / NANOSECONDS_A_MS);
  }

  async during<T>(work: () => Promise<T>): Promise<T> {
    clearTimeout(this.#end);
    if (this.#calls++ === 0) this.#monitor.enable();
    try {
      return await work();
    } finally {
      if (--this.#calls === 0) this.#end = setTimeout(() => this.#rest(), LINGER_MS).unref();
    }
  }

  #rest(): void {
    this.#before = this.longestMs;
    this.#monitor.disable();
  }
}
