/** Describes the operations on the agent itself: errors, configuration, health, background tasks, figures (A§2.3, A§2.4, A§2.6). */
import { type HandlersOf, model, type Operations, ref, type Static, Type, words } from "./operation.ts";

export const ErrorObject = model("Error", "What failed (A§2.6). `msg` and `details` go to the CNI error unchanged.", {
  cniVersion: Type.Optional(Type.String()),
  code: Type.Integer({ description: "Number of the CNI specification" }),
  word: Type.Optional(Type.String({ description: "Stable word of docs/reference/errors.md; absent where another plugin failed" })),
  msg: Type.String(),
  details: Type.Optional(Type.String()),
  "retry-after-ms": Type.Optional(Type.Integer({ minimum: 0 })),
});
export type ErrorObject = Static<typeof ErrorObject>;

const FamilyAddressing = model("NodeAddressingElement", "One family of this node's range; absent where it is off.", {
  enabled: Type.Boolean(),
  ip: Type.Optional(Type.String({ description: "Router address" })),
  "alloc-range": Type.Optional(Type.String()),
  "address-type": Type.Optional(Type.String()),
  source: Type.Optional(Type.String({ description: "Where the range comes from: flag, spec, annotation or automatic" })),
});

export const NodeAddressing = model("NodeAddressing", "The ranges of this node.", {
  ipv4: Type.Optional(ref(FamilyAddressing)),
  ipv6: Type.Optional(ref(FamilyAddressing)),
});
export type NodeAddressing = Static<typeof NodeAddressing>;

export const DaemonConfiguration = model("DaemonConfiguration", "How this agent runs.", {
  spec: Type.Object({ options: Type.Record(Type.String(), Type.String()) }),
  status: Type.Object({
    version: Type.String(),
    phase: words("starting", "local", "ready", "stopped"),
    "node-name": Type.String(),
    "ipam-mode": words("blocks", "host-scope"),
    datastore: words("local", "kubernetes", "etcdv3"),
    "run-dir": Type.String(),
    "boot-id": Type.String(),
    addressing: Type.Optional(ref(NodeAddressing)),
  }),
});
export type DaemonConfiguration = Static<typeof DaemonConfiguration>;

const HealthCheck = model("HealthCheck", "One thing that was looked at.", {
  name: Type.String(),
  state: words("ok", "warning", "failure", "disabled"),
  message: Type.String(),
  since: Type.String({ description: "RFC 3339" }),
  next: Type.Optional(Type.String({ description: "What to do" })),
});

export const StatusResponse = model("StatusResponse", "All checks, waits and findings (A§8.3).", {
  phase: words("starting", "local", "ready", "stopped"),
  state: words("ok", "warning", "failure"),
  ready: Type.Boolean(),
  live: Type.Boolean(),
  checks: Type.Array(ref(HealthCheck)),
  waits: Type.Array(Type.Object({ what: Type.String(), since: Type.String() })),
  findings: Type.Array(Type.String()),
});
export type StatusResponse = Static<typeof StatusResponse>;

export const ControllerModel = model("TaskStatus", "A named background task (A§6.1).", {
  name: Type.String(),
  uuid: Type.String(),
  configuration: Type.Object({
    interval: Type.Integer({ description: "Milliseconds between runs; 0: once until it succeeds" }),
    "error-retry-base": Type.Integer({ description: "Milliseconds" }),
    "error-retry": Type.Boolean(),
  }),
  status: Type.Object({
    "success-count": Type.Integer(),
    "last-success-timestamp": Type.Optional(Type.String()),
    "failure-count": Type.Integer(),
    "last-failure-timestamp": Type.Optional(Type.String()),
    "consecutive-failure-count": Type.Integer(),
    "last-failure-msg": Type.Optional(Type.String()),
  }),
});
export type ControllerModel = Static<typeof ControllerModel>;

export const MetricModel = model("Metric", "One figure.", {
  name: Type.String(),
  labels: Type.Record(Type.String(), Type.String()),
  value: Type.Number(),
});
export type MetricModel = Static<typeof MetricModel>;

export const DaemonConfigurationSpec = model("DaemonConfigurationSpec", "What may be changed while the agent runs.", {
  options: Type.Record(Type.String(), Type.String()),
});

export const NODE_OPERATIONS = {
  getConfig: { method: "GET", path: "/config", summary: "How this agent runs", answers: { 200: ref(DaemonConfiguration) } },
  getHealthz: { method: "GET", path: "/healthz", summary: "All checks, waits and findings", answers: { 200: ref(StatusResponse) } },
  patchConfig: {
    method: "PATCH",
    path: "/config",
    summary: "Changes options of the running agent: log-level",
    body: ref(DaemonConfigurationSpec),
    answers: { 200: ref(DaemonConfiguration) },
  },
  getControllers: {
    method: "GET",
    path: "/controllers",
    summary: "The background tasks of the agent",
    answers: { 200: Type.Array(ref(ControllerModel)) },
  },
  getMetrics: { method: "GET", path: "/metrics/", summary: "Figures as a list", answers: { 200: Type.Array(ref(MetricModel)) } },
  getMetricsText: {
    method: "GET",
    path: "/metrics",
    summary: "Figures in Prometheus' text format",
    answers: { 200: Type.String() },
    contentType: "text/plain",
  },
} as const satisfies Operations;

/** What the operations need of the rest of the agent. */
export interface NodePort {
  configuration(): DaemonConfiguration;
  /** @throws TortieError `option-invalid` for what cannot be changed while the agent runs */
  configure(options: Readonly<Record<string, string>>): void;
  health(): Promise<StatusResponse>;
  controllers(): readonly ControllerModel[];
  metrics(): Promise<readonly MetricModel[]>;
  metricsText(): Promise<string>;
}

export function nodeHandlers(node: NodePort): HandlersOf<typeof NODE_OPERATIONS> {
  return {
    getConfig: () => ({ status: 200, body: node.configuration() }),
    patchConfig({ body }) {
      node.configure(body.options);
      return { status: 200, body: node.configuration() };
    },
    getHealthz: async () => ({ status: 200, body: await node.health() }),
    getControllers: () => ({ status: 200, body: node.controllers() }),
    getMetrics: async () => ({ status: 200, body: await node.metrics() }),
    getMetricsText: async () => ({ status: 200, body: await node.metricsText(), headers: { "content-type": "text/plain; charset=utf-8" } }),
  };
}
