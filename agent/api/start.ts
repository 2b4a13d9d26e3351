/** Opens and closes the agent's two sockets: the API for operators, and the one for calls of plugins (A§2, A§11.3). */

import { TortieError } from "../../lib/errors/errors.ts";
import type { NodeRanges } from "../addresses/ranges/start.ts";
import type { AttachmentService } from "../attachments/attachment-service.ts";
import type { EndpointManager } from "../endpoints/manager.ts";
import { isConnected } from "../endpoints/mend-link.ts";
import type { Standstill } from "../observe/metrics.ts";
import type { AgentIdentities } from "../policy/identities/start.ts";
import type { AgentPolicy } from "../policy/start.ts";
import type { PolicyView } from "../policy/view.ts";
import type { AgentContext } from "../start/context.ts";
import { type Served, serveCalls } from "./calls.ts";
import { endpointHandlers } from "./endpoint.ts";
import { historyHandlers } from "./history.ts";
import { identityHandlers } from "./identity.ts";
import { IpamService, ipamHandlers } from "./ipam-service.ts";
import { type CallService, LanedAttachments } from "./lanes.ts";
import { nodeHandlers } from "./node.ts";
import { type Handlers, OPERATIONS } from "./operations.ts";
import { policyHandlers } from "./policy.ts";
import { Registration } from "./registration.ts";
import { buildApp, type RoutesInput } from "./routes.ts";
import { accessOf, groupNumber, type Listening, listen } from "./socket.ts";

interface ServedParts {
  readonly manager: EndpointManager;
  readonly service: AttachmentService;
  readonly ranges: NodeRanges;
  readonly policy: Pick<AgentPolicy, "view" | "whyOff">;
  readonly identities: AgentIdentities;
}

export async function startApi(context: AgentContext, { service, ...parts }: ServedParts): Promise<Served> {
  const { options, version, run, health, log } = context;
  const onError = (message: string, error: unknown) => log.error(message, { error });
  const ending = new AbortController();
  const server = await serveApi({
    version,
    socket: run.socket,
    group: groupNumber(options["socket-group"]),
    handlers: handlersOf(context, { service, ...parts }, ending.signal),
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
      ending.abort();
      await Promise.all([calls.stop(graceMs), server.stop(graceMs)]);
    },
  };
}

function handlersOf(
  { configuration, controllers, dataplane, health, log, run }: AgentContext,
  { manager, service, ranges, policy, identities }: ServedParts,
  ending: AbortSignal,
): Handlers {
  const ipam = ranges.ipam && new IpamService(ranges.ipam);
  return {
    ...endpointHandlers({
      manager,
      registration: new Registration(manager, ranges),
      removal: (record) => service.finish(record),
      isConnected: (record) => isConnected(record, dataplane),
      identityOf: async (record) => ((await identities.ready()) === undefined ? undefined : identities.ofEndpoint(record)),
      log,
    }),
    ...historyHandlers(run.history),
    ...identityHandlers(() => identities.ready()),
    ...ipamHandlers(ipam),
    ...policyHandlers({ view: () => viewOf(policy), ending }),
    ...nodeHandlers({
      configuration: () => configuration.show(ipam?.addressing()),
      configure: (given) => configuration.change(given),
      health: async () => health.health.document(),
      controllers: () => controllers.statuses(),
      metrics: () => health.metrics.list(),
      metricsText: () => health.metrics.text(),
    }),
  };
}

/** @throws TortieError `policy-off` with the reason */
function viewOf(policy: ServedParts["policy"]): PolicyView {
  const view = policy.view();
  if (view === undefined) throw new TortieError("policy-off", policy.whyOff());
  return view;
}

/** Times the calls for the longest standstill. */
function measured(service: CallService, standstill: Standstill): CallService {
  return {
    serve: (call, context) => standstill.during(() => service.serve(call, context)),
    isKnown: (attachment) => service.isKnown(attachment),
  };
}

export interface ServerInput extends Pick<RoutesInput, "version" | "handlers" | "onAnswer"> {
  readonly socket: string;
  /** Number of the group that may read; `undefined` where there is none. */
  readonly group: number | undefined;
  onError(message: string, error: unknown): void;
}

/** What calls have for their answers beyond the grace. */
const LAST_ANSWERS_MS = 1_000;
const LOOK_MS = 10;

export async function serveApi({ socket, group, onError, ...routes }: ServerInput): Promise<Served> {
  let listening: Listening | undefined;
  let running = 0;
  const app = await buildApp({
    ...routes,
    callerOf(request) {
      const peer = listening?.peerOf(request.raw.socket);
      return peer && { peer, access: accessOf(peer, group) };
    },
    onDefect: (error) => onError("a request failed over a defect", error),
  });
  app.server.on("request", (_request, response) => {
    running++;
    response.once("close", () => running--);
  });
  listening = await listen(app.server, socket, group, (error) => onError("a connection was refused", error));
  return {
    async stop(graceMs) {
      await listening.stop();
      const end = performance.now() + graceMs + LAST_ANSWERS_MS;
      while (running > 0 && performance.now() < end) await Bun.sleep(LOOK_MS);
      listening.destroy();
    },
  };
}
