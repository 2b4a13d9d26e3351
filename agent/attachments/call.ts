/**
 * Resolves one call in the agent: what is asked for, by which host, and its log, by the same steps as an executable (cmd/serve-call.ts).
 * Makes the answer too: the plugin prints the body unread, and ends with 0 for 200 and 1 for the rest (A§11.3).
 */

import type { CniCall } from "../../handover/call.ts";
import { digestOf, requestOf } from "../../handover/call-body.ts";
import type { HistoryStep } from "../../handover/history.ts";
import { type AttachmentId, attachmentOf } from "../../lib/cni/attachment-id.ts";
import { renderError } from "../../lib/cni/error-output.ts";
import type { CniRequest } from "../../lib/cni/protocol.ts";
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import { type ErrorWord, TortieError } from "../../lib/errors/errors.ts";
import { isJsonObject } from "../../lib/json/value.ts";
import { createLogger, type Logger } from "../../lib/log/logger.ts";
import { Secrets } from "../../lib/log/secrets.ts";
import { sha256 } from "../../lib/system/hash.ts";
import { type NetworkCall, resolveNetworkCall } from "../../main-plugin/call.ts";
import type { Host } from "../../main-plugin/host.ts";
import type { Hosts } from "../../main-plugin/hosts.ts";
import { type CallPolicy, NO_POLICY } from "../../main-plugin/policy.ts";
import type { CallTrace, Tracing } from "../observe/tracing.ts";
import { parseTraceparent, type TraceParent } from "../observe/tracing.ts";

export interface ServedCall {
  /** As it came. */
  readonly given: CniCall;
  readonly digest: string;
  readonly configDigest: string;
  readonly attachment: AttachmentId;
  readonly call: NetworkCall;
  readonly host: Host;
  readonly log: Logger;
  readonly secrets: Secrets;
  /** W3C trace context of the caller. */
  readonly traceparent?: string;
  /** Where traces are sent. */
  readonly trace?: CallTrace;
  /** How many warnings and errors the log has of this call. */
  readonly warnings: () => number;
  /** What it has done until now, and how long each step took. */
  readonly steps: () => readonly HistoryStep[];
}

export interface Surroundings {
  readonly hosts: Hosts;
  /** `ipam.type` where a configuration names none (A§11.1: `--ipam host-scope`). */
  readonly ipamType?: string;
  /** What ADD and CHECK ask of policy. Absent: it is not enforced. */
  readonly policy?: CallPolicy;
  /** Absent: traces are not configured. */
  readonly tracing?: Pick<Tracing, "begin"> | undefined;
}

/**
 * @param header `traceparent` of the request; the runtime may also say it in `runtimeConfig`
 * @throws TortieError what an executable says of the same environment and standard input
 */
export function resolveCall(given: CniCall, { hosts, ipamType, policy = NO_POLICY, tracing }: Surroundings, header?: string): ServedCall {
  const request = withIpamType(requestOf(given), ipamType);
  const config = decodeNetworkConfig(request.netconf);
  const secrets = new Secrets(config.policy.k8sAuthToken);
  const { traceparent, parent } = parentOf(header, request);
  const attachment = attachmentOf(request);
  const { network, containerId, ifname } = attachment;
  const attributes = { "cni.network": network, "container.id": containerId, "cni.ifname": ifname };
  const trace = tracing?.begin(`CNI ${request.command}`, attributes, parent);
  const traceId = trace?.traceId ?? parent?.traceId;
  const { log, warnings, steps } = watched(createLogger(config.log, { ...request, traceId }, { secrets }), trace);
  return {
    given,
    digest: digestOf(given),
    configDigest: sha256(given.text),
    attachment,
    call: { ...resolveNetworkCall(request, config, given.env, log), policy },
    host: hosts.of(config, given.env),
    log,
    secrets,
    warnings,
    steps,
    traceparent,
    trace,
  };
}

/** Puts the IPAM type in. Leaves a value that is not an object as it is: the configuration's decoder reports it. */
function withIpamType(request: CniRequest, type: string | undefined): CniRequest {
  const { ipam = {} } = request.netconf;
  if (type === undefined || !isJsonObject(ipam) || (ipam.type ?? "") !== "") return request;
  return { ...request, netconf: { ...request.netconf, ipam: { ...ipam, type } } };
}

/** Prefers the header to `runtimeConfig`, and ignores what is not a trace context. */
function parentOf(header: string | undefined, { netconf }: CniRequest): { readonly traceparent?: string; readonly parent?: TraceParent } {
  const { runtimeConfig } = netconf;
  const given = [header, isJsonObject(runtimeConfig) ? runtimeConfig.traceparent : undefined];
  for (const traceparent of given) {
    const parent = parseTraceparent(traceparent);
    if (typeof traceparent === "string" && parent !== undefined) return { traceparent, parent };
  }
  return {};
}

type Watched = Pick<ServedCall, "log" | "warnings" | "steps">;

/** Counts warnings, takes the times of steps, and tells the trace of them. */
function watched(log: Logger, trace: CallTrace | undefined): Watched {
  let count = 0;
  let lastMs = performance.now();
  const steps: HistoryStep[] = [];
  const error: Logger["error"] = (message, fields) => {
    count++;
    log.error(message, fields);
  };
  const step: Logger["step"] = (name) => {
    const nowMs = performance.now();
    steps.push({ name, milliseconds: nowMs - lastMs });
    lastMs = nowMs;
    log.step(name);
    trace?.step(name);
  };
  return { log: { ...log, error, step }, warnings: () => count, steps: () => steps };
}

export interface Answer {
  readonly status: number;
  /** A CNI result or a CNI error, byte for byte as direct mode prints it; empty for a verb that prints nothing. */
  readonly body: string;
  /** Number of the endpoint that the call was about. */
  readonly endpoint?: number;
  /** How many warnings the agent's log has of this call. */
  readonly warnings?: number;
}

/** Words that are not the attachment's failure but say how the call must be made, with the status that tells so. */
const STATUS_OF: Partial<Readonly<Record<ErrorWord, number>>> = {
  "protocol-unsupported": 400,
  "call-invalid": 400,
  "attachment-deleted": 409,
  "caller-gone": 499,
  "agent-timeout": 504,
};

export function answerOf(printed: string | undefined, warnings: number, endpoint: number | undefined): Answer {
  return { status: 200, body: printed ?? "", warnings, endpoint };
}

export function errorAnswer(error: unknown, secrets?: Secrets): Answer {
  const first = firstOf(error);
  const word = first instanceof TortieError ? first.word : undefined;
  return {
    status: (word === undefined ? undefined : STATUS_OF[word]) ?? 500,
    body: renderError(error, secrets),
  };
}

/** Finds what failed first; an error of an undo afterwards wraps it. */
export function firstOf(error: unknown): unknown {
  return error instanceof SuppressedError ? firstOf(error.suppressed) : error;
}
