/** Puts the controller together: clients, the lease, health, and a term of duties whenever this controller leads. */

import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { systemClock } from "../ipam-plugin/host.ts";
import type { Environment } from "../lib/cni/protocol.ts";
import { decodeNetworkConfig, type NetworkConfig } from "../lib/config/decode.ts";
import { configuredGroup } from "../lib/datastore/calico/codec.ts";
import type { JsonObject } from "../lib/json/value.ts";
import { createApiClient } from "../lib/kubernetes/client/client.ts";
import { ApiConnection } from "../lib/kubernetes/client/connection.ts";
import { resolveApiConfig } from "../lib/kubernetes/config/resolve.ts";
import { createAgentLog, watchSignals } from "../lib/resident/agent-log.ts";
import { Health } from "../lib/resident/health.ts";
import { SECOND_MS } from "../lib/resident/options.ts";
import { newsOf } from "../lib/resident/tasks.ts";
import { SYSTEM_CLOCK } from "../lib/system/waiting.ts";
import { serveHealth } from "./health.ts";
import { Elector, fencedClient } from "./leader/elector.ts";
import { ControllerMetrics } from "./metrics.ts";
import type { ControllerOptions } from "./options.ts";
import { Term, type TermOptions } from "./term.ts";

interface ControllerInput {
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
  const config = clusterConfig(options);
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
    queueLength: () => term?.queue.status.length ?? 0,
    leads: () => elector.mayWrite,
    kubeControllers: () => term?.kubeControllers.found,
    checks: () => health.document().checks,
    identities: () => term?.duties.identities?.counts,
  });
  await using _health = await serveHealth({ health, options, elector, term: () => term, metrics, log });
  const connection = new ApiConnection(api, (call, status) => metrics.asked(call.method, status));
  const client = fencedClient(createApiClient(api, { connections: CONNECTIONS }), elector, CONNECTIONS);
  const onRun: TermOptions["onRun"] = (run) => {
    metrics.ran(run);
    const news = newsOf(run);
    if (news !== undefined) log[run.outcome === "failure" ? "error" : "info"](news);
  };
  const group = configuredGroup(config, env);
  const onReleased: TermOptions["onReleased"] = (reason, addresses) => metrics.released(reason, addresses);
  const onIdentity: TermOptions["onIdentity"] = (change) => metrics.identityChanged(change);
  const [clock, watchClock, allocatorClock] = [SYSTEM_CLOCK, SYSTEM_CLOCK, systemClock];
  const lead = async (signal: AbortSignal) => {
    try {
      const told = { log, onRun, onReleased, onIdentity };
      term = await Term.begin({ options, connection, client, group, clock, watchClock, allocatorClock, ...told });
      await term.run(signal);
    } finally {
      term = undefined;
    }
  };
  const ending = new AbortController();
  void signals.ended.then((name) => {
    log.info(`${name}: the controller ends`);
    ending.abort(new Error(name));
  });
  await elector.run(lead, ending.signal);
  client.close();
  connection.close();
  await log.close();
  return 0;
}

function clusterConfig({ kubeconfig, "api-qps": qps }: ControllerOptions): NetworkConfig {
  const kubernetes: JsonObject = kubeconfig === undefined ? {} : { kubernetes: { kubeconfig } };
  return decodeNetworkConfig({ datastore_type: "kubernetes", qps, burst: qps * BURST_SECONDS, ...kubernetes });
}
