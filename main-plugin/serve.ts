/** Serves one call by one host, by the verb that CNI_COMMAND names, for an executable and for a process that serves many calls. */
import type { CniResult } from "../lib/cni/protocol.ts";
import { ABSENT_VERSION_OF_MAIN_RESULT } from "../lib/cni/request.ts";
import { parseResult, renderResult } from "../lib/cni/result.ts";
import { checkChain } from "../lib/config/add-checks.ts";
import type { JsonObject } from "../lib/json/value.ts";
import { stringifyJson } from "../lib/json/value.ts";
import { add } from "./add.ts";
import { type NetworkCall, resolveAddCall, resolveAttachmentCall } from "./call.ts";
import { check } from "./check.ts";
import { del } from "./del.ts";
import { gc } from "./gc.ts";
import type { Host } from "./host.ts";
import { status } from "./status.ts";

const INDENT = 4;

/** Verbs that are about an attachment: those of a chained one touch nothing. */
const CHAINED: ReadonlySet<string> = new Set(["ADD", "DEL", "CHECK"]);

/** Serves the verb. @returns what to print: the result of ADD, nothing for the other verbs */
export async function serve(call: NetworkCall, host: Host): Promise<string | undefined> {
  const { command, cniVersion } = call.request;
  if (isChained(call) && CHAINED.has(command)) return serveChained(call);
  switch (command) {
    case "ADD":
      return renderResult(await add(resolveAddCall(call), host), cniVersion ?? ABSENT_VERSION_OF_MAIN_RESULT);
    case "DEL":
      await del(resolveAttachmentCall(call), host);
      return undefined;
    case "CHECK":
      await check(resolveAddCall(call), host);
      return undefined;
    case "STATUS":
      await status(call, host);
      return undefined;
    case "GC":
      await gc(call, host);
      return undefined;
  }
}

export function isChained({ config }: Pick<NetworkCall, "config">): boolean {
  return config.chain !== "";
}

/**
 * Serves `chain: attach` (A§3.8): the interface and its addresses are those of the plugin before this one. Nothing is made and nothing
 * removed; with an agent, there is an endpoint for it.
 * @returns what to print: the other plugin's result, in the version of this call
 * @throws TortieError `netconf-value`, `result-invalid`
 */
async function serveChained(call: NetworkCall): Promise<string | undefined> {
  const { command, cniVersion = ABSENT_VERSION_OF_MAIN_RESULT } = call.request;
  if (command !== "ADD") return undefined;
  checkChain(call.config);
  const { result, json } = chainedResult(call);
  // A result of the right version keeps members that we do not know.
  const printed = json.cniVersion === cniVersion ? stringifyJson(json, INDENT) : renderResult(result, cniVersion);
  await call.journal.commit(result);
  return printed;
}

/** Reads what the plugin before this one gave. @throws TortieError `result-invalid` */
export function chainedResult({ config, request }: NetworkCall): { readonly result: CniResult; readonly json: JsonObject } {
  const json = config.prevResult ?? {};
  return { result: parseResult(json, request.cniVersion, "prevResult"), json };
}
