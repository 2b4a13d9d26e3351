/** Opens the agent's two sockets: the API for operators, and the one for calls of plugins (A§2, A§11.3). */

import type { AttachmentService } from "../attachments/attachment-service.ts";
import type { EndpointManager } from "../endpoints/manager.ts";
import { isConnected } from "../endpoints/mend-link.ts";
import { checkStatus } from "../observe/health.ts";
import type { Standstill } from "../observe/standstill.ts";
import type { NodeRanges } from "../ranges/start.ts";
import type { AgentContext } from "../start/context.ts";
import { groupNumber } from "./access.ts";
import { serveCalls } from "./calls.ts";
import { cniHandlers } from "./cni.ts";
import { endpointHandlers } from "./endpoint.ts";
import { ipamHandlers } from "./ipam.ts";
import { IpamService } from "./ipam-service.ts";
import { type CallService, LanedAttachments } from "./lanes.ts";
import { nodeHandlers } from "./node.ts";
import { type Handlers, OPERATIONS } from "./operations.ts";
import { Registration } from "./registration.ts";
import { serveApi } from "./server.ts";

interface ServedParts {
  readonly manager: EndpointManager;
  readonly service: AttachmentService;
  readonly ranges: NodeRanges;
}

/** Ends both sockets, and waits for running calls at most so long. */
export interface Served {
  stop(graceMs: number): Promise<void>;
}

export async function startApi(context: AgentContext, { service, ...parts }: ServedParts): Promise<Served> {
  const { options, version, run, health, log } = context;
  const onError = (message: string, error: unknown) => log.error(message, { error });
  const server = await serveApi({
    version,
    socket: run.socket,
    group: groupNumber(options["socket-group"]),
    handlers: handlersOf(context, { service, ...parts }),
    onError,
    onAnswer(operation, status, milliseconds) {
      const { path, method } = OPERATIONS[operation];
      health.metrics.apiAnswered(path, method, status, milliseconds);
    },
  });
  const calls = await serveCalls({
    socket: run.calls,
    directory: run.path,
    service: measured(new LanedAttachments(service), health.standstill),
    onError,
    onAnswer(command, status, milliseconds) {
      const verb = command.toLowerCase();
      health.metrics.apiAnswered(`/cni/${verb}`, "CNI", status, milliseconds);
      health.metrics.cniTook(verb, "total", milliseconds);
    },
  });
  return {
    async stop(graceMs) {
      await Promise.all([calls.stop(graceMs), server.stop(graceMs)]);
    },
  };
}

function handlersOf(
  { configuration, controllers, dataplane, health, log }: AgentContext,
  { manager, service, ranges }: ServedParts,
): Handlers {
  const ipam = ranges.ipam && new IpamService(ranges.ipam);
  return {
    ...endpointHandlers({
      manager,
      registration: new Registration(manager, ranges),
      removal: (record) => service.finish(record),
      isConnected: (record) => isConnected(record, dataplane),
      log,
    }),
    ...ipamHandlers(ipam),
    ...nodeHandlers({
      configuration: () => configuration.show(ipam?.addressing()),
      configure: (given) => configuration.change(given),
      health: async () => health.health.document(),
      controllers: () => controllers.statuses(),
      metrics: () => health.metrics.list(),
      metricsText: () => health.metrics.text(),
    }),
    ...cniHandlers(() => checkStatus(health.health)),
  };
}

/** The calls, timed for the longest standstill. */
function measured(service: CallService, standstill: Standstill): CallService {
  return {
    serve: (call, context) => standstill.during(() => service.serve(call, context)),
    isKnown: (attachment) => service.isKnown(attachment),
  };
}
