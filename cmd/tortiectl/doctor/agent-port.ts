/** Asks an agent over its socket what `tortiectl doctor` wants of it. */
import { AgentClient } from "../../../agent/api/client.ts";
import type { AgentPort } from "../../../doctor/host/view.ts";
import { askPolicy } from "../policy/check.ts";

export function agentAt(socket: string): AgentPort {
  const client = new AgentClient(socket);
  return {
    async look() {
      const { body: health } = await client.call("getHealthz", {});
      const [config, endpoints, policy] = [
        await client.call("getConfig", {}),
        await client.call("listEndpoints", {}),
        await askPolicy(client),
      ];
      return {
        version: config.body.status.version,
        phase: health.phase,
        isReady: health.ready,
        checks: health.checks,
        waits: health.waits,
        findings: health.findings,
        endpoints: endpoints.body.map(({ status: { networking } }) => ({
          hostInterface: networking["interface-name"] ?? "",
          addresses: networking.addresses.map(({ address }) => address),
        })),
        policy,
      };
    },
  };
}
