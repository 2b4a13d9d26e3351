/** The agent itself: configuration, health, background tasks, figures (A§2.3). */
import { ref, Type } from "./model.ts";
import { ControllerModel, DaemonConfiguration, DaemonConfigurationSpec, MetricModel, StatusResponse } from "./models.ts";
import type { Operation } from "./operation.ts";

export const NODE_OPERATIONS = {
  getConfig: {
    method: "GET",
    path: "/config",
    summary: "How this agent runs",
    tag: "node",
    answers: { 200: ref(DaemonConfiguration) },
    isRead: true,
  },
  getHealthz: {
    method: "GET",
    path: "/healthz",
    summary: "All checks, waits and findings",
    tag: "node",
    answers: { 200: ref(StatusResponse) },
    isRead: true,
  },
  patchConfig: {
    method: "PATCH",
    path: "/config",
    summary: "Changes options of the running agent: log-level",
    tag: "node",
    body: ref(DaemonConfigurationSpec),
    answers: { 200: ref(DaemonConfiguration) },
    isRead: false,
  },
  getControllers: {
    method: "GET",
    path: "/controllers",
    summary: "The background tasks of the agent",
    tag: "node",
    answers: { 200: Type.Array(ref(ControllerModel)) },
    isRead: true,
  },
  getMetrics: {
    method: "GET",
    path: "/metrics/",
    summary: "Figures as a list",
    tag: "node",
    answers: { 200: Type.Array(ref(MetricModel)) },
    isRead: true,
  },
  getMetricsText: {
    method: "GET",
    path: "/metrics",
    summary: "Figures in Prometheus' text format",
    tag: "node",
    answers: { 200: Type.String() },
    contentType: "text/plain",
    isRead: true,
  },
} as const satisfies Readonly<Record<string, Operation>>;
