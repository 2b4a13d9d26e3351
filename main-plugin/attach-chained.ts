/**
 * `chain: attach` (A§3.8): the interface and its addresses are those of the plugin before this one. Nothing is made and nothing removed;
 * with an agent, there is an endpoint for it.
 */
import type { CniResult } from "../lib/cni/protocol.ts";
import { parseResult } from "../lib/cni/result.ts";
import { checkChain } from "../lib/config/add-checks.ts";
import { stringifyJson } from "../lib/json/stringify.ts";
import type { JsonObject } from "../lib/json/value.ts";
import type { NetworkCall } from "./call.ts";

const INDENT = 4;

export function isChained({ config }: Pick<NetworkCall, "config">): boolean {
  return config.chain !== "";
}

/** @returns what is to be printed: the other plugin's result, unchanged @throws TortieError `netconf-value`, `result-invalid` */
export async function serveChained(call: NetworkCall): Promise<string | undefined> {
  const { command } = call.request;
  if (command !== "ADD") return undefined;
  checkChain(call.config);
  const { result, json } = chainedResult(call);
  await call.residence?.journal?.commit(result);
  return stringifyJson(json, INDENT);
}

/** What the plugin before this one gave. @throws TortieError `result-invalid` */
export function chainedResult({ config, request }: NetworkCall): { readonly result: CniResult; readonly json: JsonObject } {
  const json = config.prevResult ?? {};
  return { result: parseResult(json, request.cniVersion, "prevResult"), json };
}
