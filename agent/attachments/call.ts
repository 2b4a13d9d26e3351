/** One call, decoded: what is asked for, on which node, and its log. The same steps as an executable's (cmd/serve-call.ts). */
import type { CniRequest } from "../../lib/cni/protocol.ts";
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { isJsonObject } from "../../lib/json/value.ts";
import { createLogger, type Logger } from "../../lib/log/logger.ts";
import { Secrets } from "../../lib/log/secrets.ts";
import { type NetworkCall, resolveNetworkCall } from "../../main-plugin/call.ts";
import { findIpam } from "../../main-plugin/ipam-source.ts";
import type { Node } from "../../main-plugin/node.ts";
import type { Attachment } from "../endpoints/record/endpoint-record.ts";
import type { CniVerb } from "../forward/protocol.ts";
import type { Nodes } from "../node/nodes.ts";
import { parseTraceparent, type TraceParent } from "../trace/traceparent.ts";
import type { CallTrace, Tracing } from "../trace/tracing.ts";
import { type CallBody, digestOf, environmentOf, requestOf, sha256 } from "./call-body.ts";

export interface ServedCall {
  readonly body: CallBody;
  readonly digest: string;
  readonly configDigest: string;
  readonly attachment: Attachment;
  readonly call: NetworkCall;
  readonly node: Node;
  readonly log: Logger;
  readonly secrets: Secrets;
  /** W3C trace context of the caller. */
  readonly traceparent?: string;
  /** Where traces are sent. */
  readonly trace?: CallTrace;
  /** How many warnings and errors the log has of this call. */
  readonly warnings: () => number;
}

export interface Surroundings {
  readonly nodes: Nodes;
  /** `ipam.type` where a configuration names none (A§11.1: `--ipam host-scope`). */
  readonly ipamType?: string;
  /** Absent: traces are not configured. */
  readonly tracing?: Pick<Tracing, "begin"> | undefined;
}

/**
 * @param header `traceparent` of the request; the runtime may also say it in `runtimeConfig`
 * @throws TortieError what an executable says of the same environment and standard input
 */
export function prepareCall(verb: CniVerb, body: CallBody, { nodes, ipamType, tracing }: Surroundings, header?: string): ServedCall {
  const env = environmentOf(verb, body);
  const request = withIpamType(requestOf(env, body), ipamType);
  const config = decodeNetworkConfig(request.netconf);
  const secrets = new Secrets(config.policy.k8sAuthToken);
  const { traceparent, parent } = parentOf(header, request);
  const { network, containerId, interfaceName } = request;
  const attributes = { "cni.network": network, "container.id": containerId, "cni.ifname": interfaceName };
  const trace = tracing?.begin(`CNI ${request.command}`, attributes, parent);
  const traceId = trace?.traceId ?? parent?.traceId;
  const { log, warnings } = watched(createLogger(config.log, { ...request, traceId }, { secrets }), trace);
  return {
    body,
    digest: digestOf(body),
    configDigest: sha256(body.stdin),
    attachment: attachmentOf(request),
    call: resolveNetworkCall(request, config, env, log),
    node: nodes.of(config, env),
    log,
    secrets,
    warnings,
    ...(traceparent === undefined ? {} : { traceparent }),
    ...(trace === undefined ? {} : { trace }),
  };
}

/**
 * The agent runs an IPAM plugin that is another program only where it sees it (A§11.3).
 * @throws TortieError `delegate-elsewhere`: the caller, who sees more or knows better words, serves the call itself
 */
export function assertDelegateIsHere({ call }: ServedCall): void {
  // Nor does it keep endpoints that another program builds: it could neither restore nor mend them.
  if (call.config.dataplaneOptions?.type === "grpc") {
    throw new TortieError("delegate-elsewhere", "the plugin itself calls the gRPC dataplane of its configuration");
  }
  try {
    findIpam(call.request, call.config);
  } catch (error) {
    if (!(error instanceof TortieError) || error.word !== "delegate-not-found") throw error;
    throw new TortieError("delegate-elsewhere", error.message, { cause: error });
  }
}

/** A value that is no object stays as it is: the configuration's decoder reports it. */
function withIpamType(request: CniRequest, type: string | undefined): CniRequest {
  const { ipam = {} } = request.netconf;
  if (type === undefined || !isJsonObject(ipam) || (ipam.type ?? "") !== "") return request;
  return { ...request, netconf: { ...request.netconf, ipam: { ...ipam, type } } };
}

/** The header before `runtimeConfig`; what is no trace context is as good as absent. */
function parentOf(header: string | undefined, { netconf }: CniRequest): { readonly traceparent?: string; readonly parent?: TraceParent } {
  const { runtimeConfig } = netconf;
  const given = [header, isJsonObject(runtimeConfig) ? runtimeConfig.traceparent : undefined];
  for (const traceparent of given) {
    const parent = parseTraceparent(traceparent);
    if (typeof traceparent === "string" && parent !== undefined) return { traceparent, parent };
  }
  return {};
}

/** Counts warnings, and tells the trace of steps. */
function watched(log: Logger, trace: CallTrace | undefined): { readonly log: Logger; readonly warnings: () => number } {
  let count = 0;
  const error: Logger["error"] = (message, fields) => {
    count++;
    log.error(message, fields);
  };
  const step: Logger["step"] = (name) => {
    log.step(name);
    trace?.step(name);
  };
  return { log: { ...log, error, step }, warnings: () => count };
}

function attachmentOf({ network, containerId, interfaceName }: CniRequest): Attachment {
  return { network, containerId, ifname: interfaceName };
}
