/** One call, decoded: what is asked for, on which node, and its log. The same steps as an executable's (cmd/plugin.ts). */
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
  /** How many warnings and errors the log has of this call. */
  readonly warnings: () => number;
}

export interface Surroundings {
  readonly nodes: Nodes;
  /** `ipam.type` where a configuration names none (A§11.1: `--ipam host-scope`). */
  readonly ipamType?: string;
}

/** @throws TortieError what an executable says of the same environment and standard input */
export function prepareCall(verb: CniVerb, body: CallBody, { nodes, ipamType }: Surroundings, traceparent?: string): ServedCall {
  const env = environmentOf(verb, body);
  const request = withIpamType(requestOf(env, body), ipamType);
  const config = decodeNetworkConfig(request.netconf);
  const secrets = new Secrets(config.policy.k8sAuthToken);
  const { log, warnings } = counting(createLogger(config.log, request, { secrets }));
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

/** What is no object stays as it is: the configuration's own decoder has words for it. */
function withIpamType(request: CniRequest, type: string | undefined): CniRequest {
  const { ipam = {} } = request.netconf;
  if (type === undefined || !isJsonObject(ipam) || (ipam.type ?? "") !== "") return request;
  return { ...request, netconf: { ...request.netconf, ipam: { ...ipam, type } } };
}

function counting(log: Logger): { readonly log: Logger; readonly warnings: () => number } {
  let count = 0;
  const error: Logger["error"] = (message, fields) => {
    count++;
    log.error(message, fields);
  };
  return { log: { ...log, error }, warnings: () => count };
}

function attachmentOf({ network, containerId, interfaceName }: CniRequest): Attachment {
  return { network, containerId, ifname: interfaceName };
}
