/** Looks at what every attachment of this host needs: the agent, the datastore, the network configuration, and the rules of its addresses. */
import { readFileSync, readlinkSync } from "node:fs";
import { AgentClient } from "../../../agent/api/client.ts";
import type { EndpointModel } from "../../../agent/api/endpoint-schema.ts";
import { type CheckOptions, check } from "../../../doctor/check.ts";
import type { AttachmentFacts } from "../../../doctor/explain/facts.ts";
import { findingOf } from "../../../doctor/host/addresses.ts";
import { policyFindings, UNSAID } from "../../../doctor/policy.ts";
import { count } from "../../../doctor/problem.ts";
import { type CheckResult, type Finding, failed, result, skipped, warned, well } from "../../../doctor/report.ts";
import { validateText } from "../../../doctor/validate/validate.ts";
import { type HistoryEntry, type HistoryQuery, readHistory } from "../../../handover/history.ts";
import type { EndpointRecord } from "../../../handover/record.ts";
import { findAgent } from "../../../handover/run-directory.ts";
import { conflistsIn } from "../../../installer/lists.ts";
import { systemClock } from "../../../ipam-plugin/host.ts";
import { defaultPluginPath } from "../../../lib/cni/runtime/run-plugin.ts";
import { isDatastoreFailure } from "../../../lib/datastore/errors.ts";
import { messageOf, TortieError } from "../../../lib/errors/errors.ts";
import { field, isNumber, parseObject } from "../../../lib/json/decode.ts";
import { ifReadable } from "../../../lib/system/files.ts";
import { VERSION } from "../../output.ts";
import { askHistory } from "../ask-agent.ts";
import { type AskedPolicy, askPolicy } from "../policy/check.ts";
import type { Rules } from "./rules.ts";
import type { Sources } from "./sources.ts";

export interface AgentSeen {
  /** `undefined`: none answers. */
  readonly client: AgentClient | undefined;
  readonly endpoints: readonly EndpointModel[];
  /** What it says of policy; `undefined`: nothing. */
  readonly policy: AskedPolicy | undefined;
  readonly results: readonly CheckResult[];
}

/** @returns the agent's endpoint of a record, if it knows one */
export function endpointOf({ attachment, id }: EndpointRecord, { endpoints }: AgentSeen): EndpointModel | undefined {
  return endpoints.find((one) => one.id === id && one.status.attachment["container-id"] === attachment.containerId);
}

/** Asks the agent how it is. Its absence is wrong only where there was one, or where the list requires one. */
export async function agentSeen({ run, lists }: Sources): Promise<AgentSeen> {
  const object = `agent at ${run.socket}`;
  const client = new AgentClient(run.socket);
  try {
    const { body: health } = await client.call("getHealthz", {});
    const { body: endpoints } = await client.call("listEndpoints", {});
    const { body: config } = await client.call("getConfig", {});
    const policy = await askPolicy(client).catch(() => undefined);
    const wrong = health.checks.filter(({ state }) => state === "failure" || state === "warning");
    const unwell = wrong.map(({ name, state, message, next = "see: tortiectl node status" }) =>
      result("agent", "health", (state === "failure" ? failed : warned)(`agent, ${name}`, message, { next })),
    );
    const next = "make that available; until then ADDs may fail";
    const waits = health.waits.map(({ what, since }) =>
      result("agent", "waits", warned(object, `it waits for ${what} since ${since}`, { next, word: "agent-starting" })),
    );
    const found = [...unwell, ...waits, ...replaced(run.agentFile, config.status.version)];
    const results = found.length > 0 ? found : [result("agent", "health", well(object, `phase ${health.phase}`))];
    return { client, endpoints, policy, results };
  } catch (error) {
    const isAway = error instanceof TortieError && error.word === "agent-unreachable";
    const finding = isAway ? absent(object, run.agentFile, lists[0]?.config.agent.mode) : skipped(object, messageOf(error));
    return { client: undefined, endpoints: [], policy: undefined, results: [result("agent", "health", finding)] };
  }
}

/** Judges by the list, which alone decides who serves the calls. */
export function absent(object: string, agentFile: string, mode: string | undefined): Finding {
  const left = findAgent(agentFile);
  const word = "agent-unreachable";
  if (mode === "require") {
    const seen = left === undefined ? "none has been here since the host's start" : `the last one was in phase ${left.phase}`;
    const message = `the network configuration requires an agent, and none answers (${seen}): an ADD waits and fails, a DEL removes the link and queues the rest`;
    return failed(object, message, { next: 'start tortie-node, or set "agent" to "off" in the network configuration', word });
  }
  const alone = "the plugins serve their calls themselves, and nobody enforces policy, repairs or keeps a history";
  if (left === undefined) return skipped(object, `no agent runs here: ${alone}`);
  const next = "start tortie-node; if it is gone for good, uninstall it: docs/how-to/uninstall.md";
  return failed(object, `an agent was here, phase ${left.phase}, and does not answer: ${alone}`, { next, word });
}

/** Finds an agent that runs what has been replaced on the disk since, or another version than this program. */
function replaced(agentFile: string, version: string): readonly CheckResult[] {
  const next = "restart the agent: pods keep their network meanwhile";
  const executable = executableOf(agentFile);
  if (executable?.endsWith(" (deleted)")) {
    const message = `it runs an executable that has been replaced since: ${executable}`;
    return [result("agent", "executable", warned("agent", message, { next }))];
  }
  if (version === VERSION) return [];
  return [result("agent", "executable", warned("agent", `it is version ${version}, and this tortiectl ${VERSION}`, { next }))];
}

function executableOf(agentFile: string): string | undefined {
  try {
    const pid = field(parseObject(readFileSync(agentFile, "utf8")), "pid", isNumber);
    return readlinkSync(`/proc/${pid}/exe`);
  } catch {
    // It is in another container's namespace of processes.
    return undefined;
  }
}

/** Reads the history where it is served, else from its files. */
export async function historyOf({ run }: Sources, { client }: AgentSeen, query: HistoryQuery): Promise<readonly HistoryEntry[]> {
  return client === undefined ? readHistory(run.history, query) : askHistory(client, query);
}

/** Reads the log of an endpoint that is there, as entries of a history. */
export async function logOf(client: AgentClient, id: number): Promise<readonly HistoryEntry[]> {
  const { body } = await client.call("getEndpointLog", { params: { id: String(id) } });
  return body.map(({ timestamp, code, message }) => ({
    time: timestamp,
    event: message.startsWith("mended") ? ("mended" as const) : ("noted" as const),
    outcome: code === "Failure" ? ("failed" as const) : code === "Warning" ? ("warning" as const) : ("ok" as const),
    addresses: [],
    steps: [],
    message,
  }));
}

/** Asks the datastore for its pools, as each ADD does. */
export async function storeResults({ store, storeProblem }: Sources): Promise<readonly CheckResult[]> {
  if (store === undefined) return [result("datastore", "reachable", storeFailure(storeProblem))];
  const { description, pools } = store.datastore;
  try {
    const found = (await pools.list()).length;
    if (store.unreadable.size === 0)
      return [result("datastore", "reachable", well(description, `answers, and has ${count(found, "pool")}`))];
  } catch (error) {
    return [result("datastore", "reachable", storeFailure(error))];
  }
  const next = "correct or remove that object by hand";
  return [...store.unreadable].map((message) =>
    result("datastore", "objects", failed(description, message, { next, word: "datastore-object-invalid" })),
  );
}

/** Says why the datastore cannot be asked, and what to do. */
export function storeFailure(error: unknown): Finding {
  if (isDatastoreFailure(error, "unauthorized") && error.word !== "datastore-forbidden") {
    const next = "renew the credentials: with an agent, restart it; without one, run tortiectl install --watch, which renews the token";
    return failed("datastore", `it refuses this host: ${messageOf(error)}`, { next, word: "datastore-unauthorized" });
  }
  if (error instanceof TortieError) return failed("datastore", messageOf(error), { next: error.next, word: error.word });
  return failed("datastore", messageOf(error), { next: "make it reachable, then ask again", word: "datastore-unavailable" });
}

/** Says what weakens policy on this node beside what was said of these attachments. */
export function policyResults({ node }: Rules, { policy }: AgentSeen, attachments: readonly AttachmentFacts[]): readonly CheckResult[] {
  const told = attachments.flatMap((one) => one.policy?.differences ?? []);
  const asked = policy ?? { ...UNSAID, isServed: false };
  const differences = asked.differences.filter((one) => !told.includes(one));
  const isTold = (kind: string) =>
    kind === "policy-endpoint-unknown" || (kind === "policy-table-missing" && attachments.some(({ policy: one }) => one !== undefined));
  return policyFindings({ ...node, ...asked, differences })
    .filter(({ kind }) => !isTold(kind))
    .map(({ kind, message, next }) => result("policy", "node", warned("network policy", message, { next, word: kind })));
}

/** Applies the rules of `tortiectl ipam check` to some addresses. */
export async function addressResults(
  { store }: Sources,
  addresses: readonly string[],
  options: Pick<CheckOptions, "graceMs">,
): Promise<readonly CheckResult[]> {
  if (store === undefined || addresses.length === 0) return [];
  try {
    const problems = await check(store.datastore, {
      ...options,
      nowMs: systemClock.nowMs,
      isStrict: false,
      pause: () => Bun.sleep(SETTLE_MS),
    });
    const found = problems.filter((problem) => problem.addresses.some((address) => addresses.includes(address)));
    if (found.length === 0) return [result("addresses", "consistent", well(addresses.join(", "), "block, handle and record agree"))];
    return found.map((problem) => result("addresses", problem.kind, findingOf(problem)));
  } catch (error) {
    if (!isDatastoreFailure(error, "unauthorized")) return [result("datastore", "reachable", storeFailure(error))];
    const message = "this account may not list pods, blocks or handles: give another one with --kubeconfig";
    return [result("addresses", "consistent", skipped(addresses.join(", "), message))];
  }
}

/** Gives operations under way the time to end before what they do is called a problem. */
const SETTLE_MS = 500;

/** Judges the lists of this host as runtimes would read them. */
export async function configurationResults({ options: { netDir }, lists }: Sources): Promise<readonly CheckResult[]> {
  const files = conflistsIn(netDir);
  if (files.length === 0) {
    return [result("configuration", "list", skipped(netDir, "there is no network configuration: a runtime would attach nothing here"))];
  }
  const results: CheckResult[] = [];
  for (const file of files) {
    const findings = await validateText(file, textOf(file), defaultPluginPath(process.env));
    for (const { severity, code, message, line } of findings) {
      if (severity === "warning" && code !== "plugin-version") continue;
      const object = line === undefined ? file : `${file}, line ${line}`;
      const next = "correct the file, or let the installer write it again: tortiectl install";
      results.push(result("configuration", "list", failed(object, message, { next, word: code })));
    }
  }
  const [first] = files;
  if (results.length === 0 && first !== undefined && lists[0]?.list.file !== first) {
    const message = `runtimes take ${first}, which has no plugin of Tortie's: new pods get another network`;
    const next = "rename one of the lists: the first name in the alphabet counts";
    results.push(result("configuration", "list", failed(first, message, { next })));
  }
  return results.length > 0 ? results : [result("configuration", "list", well(first ?? netDir, "the list that runtimes take is right"))];
}

function textOf(file: string): string {
  return ifReadable(() => readFileSync(file, "utf8")) ?? "";
}
