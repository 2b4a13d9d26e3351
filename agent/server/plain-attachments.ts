/** Calls of plugins served one by one by the flows of main-plugin/, on a Node that stays: no journal, no endpoints. */
import type { Environment } from "../../lib/cni/environment.ts";
import type { CniCommand, CniRequest } from "../../lib/cni/protocol.ts";
import { readCall } from "../../lib/cni/request.ts";
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import type { NetworkConfig } from "../../lib/config/network-config.ts";
import { createLogger, type Logger } from "../../lib/log/logger.ts";
import { Secrets } from "../../lib/log/secrets.ts";
import { resolveNetworkCall } from "../../main-plugin/call.ts";
import type { Node } from "../../main-plugin/node.ts";
import { serve } from "../../main-plugin/serve.ts";
import type { CniCallBody, CniVerb } from "../forward/protocol.ts";
import type { AttachmentAnswer, AttachmentService } from "./attachment-service.ts";
import { errorAnswer } from "./error-answer.ts";

const COMMANDS: Readonly<Record<CniVerb, Exclude<CniCommand, "VERSION">>> = {
  add: "ADD",
  del: "DEL",
  check: "CHECK",
  gc: "GC",
  status: "STATUS",
};

/** @param nodeOf the node for a configuration, kept by the caller */
export function plainAttachments(nodeOf: (config: NetworkConfig, env: Environment, log: Logger) => Node): AttachmentService {
  return {
    async serve(verb, body, { signal }) {
      try {
        const printed = await run(COMMANDS[verb], body, signal, nodeOf);
        return { status: 200, body: printed ?? "" };
      } catch (error) {
        const { status, body: object, headers } = errorAnswer(error);
        return { status, body: JSON.stringify(object, undefined, 4), headers } satisfies AttachmentAnswer;
      }
    },
  };
}

async function run(
  command: Exclude<CniCommand, "VERSION">,
  body: CniCallBody,
  signal: AbortSignal,
  nodeOf: (config: NetworkConfig, env: Environment, log: Logger) => Node,
): Promise<string | undefined> {
  const env: Environment = {
    ...body.env,
    CNI_COMMAND: command,
    CNI_CONTAINERID: body.containerId,
    CNI_IFNAME: body.ifname,
    CNI_NETNS: body.netns?.path ?? "",
    CNI_ARGS: body.args ?? "",
    CNI_PATH: body.path ?? "",
  };
  // Never VERSION and never empty: the command was set above.
  const request = readCall(env, () => new TextEncoder().encode(body.stdin)) as CniRequest;
  const config = decodeNetworkConfig(request.netconf);
  const log = createLogger(config.log, request, { secrets: new Secrets(config.policy.k8sAuthToken) });
  try {
    return await serve(resolveNetworkCall(request, config, env, log, signal), nodeOf(config, env, log));
  } catch (error) {
    log.error(`${command} failed`, { error });
    throw error;
  } finally {
    await log.flush();
  }
}
