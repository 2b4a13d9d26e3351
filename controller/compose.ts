/** The controller, put together: clients, the lease, health, and a term of duties whenever the lease is had. */
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { systemClock } from "../ipam-plugin/node.ts";
import type { Environment } from "../lib/cni/environment.ts";
import { decodeNetworkConfig } from "../lib/config/decode.ts";
import { configuredGroup } from "../lib/datastore/calico/group.ts";
import { messageOf } from "../lib/errors/errors.ts";
import { createApiClient } from "../lib/kubernetes/client/client.ts";
import { ApiConnection } from "../lib/kubernetes/client/connection.ts";
import { resolveApiConfig } from "../lib/kubernetes/config/resolve.ts";
import { createAgentLog } from "../lib/resident/agent-log.ts";
import { controllersCheck, LoopCheck, watchesCheck } from "../lib/resident/checks.ts";
import { Health } from "../lib/resident/health.ts";
import { keepHealthServed } from "../lib/resident/health-server.ts";
import { serveMetrics } from "../lib/resident/metrics-address.ts";
import { SECOND_MS } from "../lib/resident/option-entry.ts";
import { watchSignals } from "../lib/resident/signals.ts";
import { SYSTEM_CLOCK } from "../lib/system/clock.ts";
import { annotationsCheck, firstPoolsCheck, kubeControllersCheck, leaseCheck, queueCheck } from "./checks.ts";
import { Elector } from "./leader/elector.ts";
import { fencedClient } from "./leader/fenced-client.ts";
import { ControllerMetrics } from "./metrics.ts";
import type { ControllerOptions } from "./options.ts";
import { Term } from "./term.ts";

export interface ControllerInput {
  readonly options: ControllerOptions;
  readonly env: Environment;
  readonly version: string;
}

/** Several requests of one duty may be under way at once. */
const CONNECTIONS = 4;
const BURST_SECONDS = 2;

/** Runs until a signal ends it. @returns the exit status @throws TortieError where the options lead to no API server */
export async function runController({ options, env, version }: ControllerInput): Promise<number> {
  const log = createAgentLog(options["log-level"], options["log-file"]);
  const signals = watchSignals(() => log.reopen());
  const config = decodeNetworkConfig({
    datastore_type: "kubernetes",
    qps: options["api-qps"],
    burst: options["api-qps"] * BURST_SECONDS,
    ...(options.kubeconfig === undefined ? {} : { kubernetes: { kubeconfig: options.kubeconfig } }),
  });
  const api = resolveApiConfig(config, env);
  const identity = options.identity ?? `${hostname()}_${randomBytes(4).toString("hex")}`;
  log.info("tortie-controller begins", { version, identity });
  const elector = new Elector({
    client: createApiClient(api),
    clock: SYSTEM_CLOCK,
    namespace: options["lease-namespace"],
    name: options["lease-name"],
    identity,
    durationMs: options["lease-duration"] * SECOND_MS,
    log: (message) => log.info(message, { identity }),
  });
  let term: Term | undefined;
  const health = new Health(() => "ready", SYSTEM_CLOCK);
  const metrics = new ControllerMetrics({
    view: () => term?.view,
    candidates: () => term?.candidates ?? 0,
    queueLength: () => term?.queue.length ?? 0,
    leads: () => elector.mayWrite,
    kubeControllers: () => term?.kubeControllers,
    checks: () => health.document().checks,
  });
  await using _health = await serveHealth({ health, options, elector, term: () => term, metrics, log });
  const connection = new ApiConnection(api, (call, status) => metrics.asked(call.method, status));
  const client = fencedClient(createApiClient(api, { connections: CONNECTIONS }), elector, CONNECTIONS);
  const ending = new AbortController();
  void signals.ended.then((name) => {
    log.info(`${name}: the controller ends`);
    ending.abort(new Error(name));
  });
  const lead = async (signal: AbortSignal) => {
    try {
      term = await Term.begin({
        options,
        connection,
        client,
        group: configuredGroup(config, env),
        clock: SYSTEM_CLOCK,
        watchClock: SYSTEM_CLOCK,
        allocatorClock: systemClock,
        log,
        onRun: (run) => {
          metrics.ran(run);
          if (run.outcome === "failure") log.error(`${run.name}: ${run.message ?? "failed"}`);
        },
        onReleased: (reason, addresses) => metrics.released(reason, addresses),
      });
      await term.run(signal);
    } finally {
      term = undefined;
    }
  };
  await elector.run(lead, ending.signal);
  client.close();
  connection.close();
  await log.close();
  return 0;
}

interface HealthInput {
  readonly health: Health;
  readonly options: ControllerOptions;
  readonly elector: Elector;
  readonly term: () => Term | undefined;
  readonly metrics: ControllerMetrics;
  readonly log: ReturnType<typeof createAgentLog>;
}

/**
 * Alive while the event loop turns; ready while the lease can be read, even by a controller that does not lead. A port that is taken is a
 * finding.
 */
async function serveHealth({ health, options, elector, term, metrics, log }: HealthInput): Promise<AsyncDisposable> {
  const loop = new LoopCheck(SYSTEM_CLOCK);
  const checks = [
    loop.check,
    leaseCheck(elector),
    watchesCheck(() => term()?.view.states() ?? []),
    controllersCheck(() => term()?.statuses ?? []),
    queueCheck(() => term()?.queue),
    kubeControllersCheck(options["calico-kube-controllers"], () => term()?.kubeControllers),
    annotationsCheck(() => term()?.unreadPods ?? []),
    firstPoolsCheck(() => term()?.poolRefusals ?? []),
  ];
  for (const check of checks) health.add(check);
  const timer = setInterval(() => {
    loop.turn();
    health.look();
  }, LoopCheck.TURN_MS);
  timer.unref();
  const port = options["health-port"];
  const server =
    port === 0
      ? undefined
      : await keepHealthServed(
          { port, health, metrics },
          {
            onServed: (opened) => log.info("health is served", { port: opened }),
            onTaken: (error) =>
              log.error(`port ${port} for /livez, /readyz and /metrics cannot be opened, and is tried again: ${messageOf(error)}`),
          },
        );
  const figures = await serveMetrics(options["metrics-address"], metrics, {
    finding: (text) => health.find("metrics-address", text),
    info: log.info,
    error: log.error,
  });
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      await figures?.[Symbol.asyncDispose]();
      await server?.[Symbol.asyncDispose]();
    },
  };
}
