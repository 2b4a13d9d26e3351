/** Configuration, health, background tasks, figures (A§2.3). */
import type { Handlers } from "../handler.ts";
import type { NodePort } from "../ports.ts";

type NodeOperations = "getConfig" | "patchConfig" | "getHealthz" | "getControllers" | "getMetrics" | "getMetricsText";

export function nodeHandlers(node: NodePort): Pick<Handlers, NodeOperations> {
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
