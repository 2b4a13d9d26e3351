/** Runs `tortiectl repair`: says what it would do, and does it when it is told to. Each effect is in the history before it happens. */
import { hostname } from "node:os";
import type { AgentClient } from "../../../agent/api/client.ts";
import { aboutRecord } from "../../../agent/endpoints/history.ts";
import { readSysctl } from "../../../dataplane/linux/sysctl.ts";
import { isKnownEndpoint } from "../../../dataplane/nftables/policy/known-endpoints.ts";
import { type CheckOptions, check, repairEach } from "../../../doctor/check.ts";
import { ownerOf } from "../../../doctor/explain/facts.ts";
import { type Problem, repairText } from "../../../doctor/problem.ts";
import { planRepair, type RepairAction, type RepairKind } from "../../../doctor/repair/plan.ts";
import { type CheckResult, failed, type Report, result, warned, well } from "../../../doctor/report.ts";
import { type HistoryEntry, HistoryWriter } from "../../../handover/history.ts";
import { systemClock } from "../../../ipam-plugin/host.ts";
import { contains, hostPrefix, parseAddress, parsePrefix } from "../../../lib/addresses/address.ts";
import { messageOf, TortieError } from "../../../lib/errors/errors.ts";
import { isThere } from "../../../lib/system/files.ts";
import { lockHolder, tryLockFile } from "../../../lib/system/flock.ts";
import { VERSION } from "../../output.ts";
import { endpointsHere, type Known, knownAttachments, recordOfNetwork } from "../explain/attachments.ts";
import { look } from "../explain/look.ts";
import { printResult } from "../explain/print.ts";
import { isNamed, rulesOf } from "../explain/rules.ts";
import { type HereOptions, openSources, type Sources } from "../explain/sources.ts";
import { type AgentSeen, agentSeen, endpointOf } from "../explain/surroundings.ts";
import { lockOf } from "../ipam/store.ts";
import { askPolicy } from "../policy/check.ts";
import type { Terminal } from "../terminal.ts";
import { mendAlone, mendByAgent, mendPolicy, type RepairNote, removeAlone, removeByAgent, rewriteRecord, servedOf } from "./attachment.ts";

export interface RepairOptions extends HereOptions {
  readonly what: "pod" | "container" | "node";
  readonly name: string | undefined;
  /** Else it is only said what would be done. */
  readonly yes: boolean;
}

interface Work {
  readonly sources: Sources;
  readonly agent: AgentSeen;
  readonly options: RepairOptions;
  readonly terminal: Terminal;
  readonly history: HistoryWriter;
}

/** @returns exit status: 1 where something is left to be repaired, also because it was only looked at */
export async function runRepair(options: RepairOptions, terminal: Terminal): Promise<number> {
  await using sources = await openSources(options);
  const history = new HistoryWriter(sources.run.history);
  const work = { sources, agent: await agentSeen(sources), options, terminal, history };
  using _ = withoutSilentAgent(work);
  const results = await repairAllOf(work);
  const report: Report = { time: new Date().toISOString(), host: hostname(), version: VERSION, results };
  if (options.json) terminal.out(JSON.stringify({ ...report, applied: options.yes }, undefined, 2));
  else printReport(report, options, terminal);
  return results.every(({ status }) => status === "ok") ? 0 : 1;
}

/** Refuses to work beside an agent that runs and does not answer; one that begins meanwhile waits for the lock. @throws TortieError `agent-running` */
function withoutSilentAgent({ sources: { run }, agent, options }: Work): Disposable {
  const nothing = { [Symbol.dispose]: () => undefined };
  if (agent.client !== undefined || !options.yes || !isThere(run.path)) return nothing;
  const lock = tryLockFile(run.instanceLock);
  if (lock !== undefined) return lock;
  const message = `an agent runs here and does not answer: ${run.instanceLock} is held by ${lockHolder(run.instanceLock)}`;
  throw new TortieError("agent-running", message, { next: "see with: tortiectl node status; restart the agent, then repair again" });
}

async function repairAllOf(work: Work): Promise<readonly CheckResult[]> {
  const { sources, options } = work;
  const known = knownAttachments(sources, await endpointsHere(sources)).filter(isWanted(options));
  if (options.what !== "node" && known.length === 0) {
    throw new TortieError("endpoint-unknown", `nothing is attached here for ${options.what} ${options.name}`, {
      next: `see what was with: tortiectl explain ${options.what} ${options.name}`,
    });
  }
  const results: CheckResult[] = [];
  if (options.what === "node") results.push(...(await repairHost(work)));
  for (const one of known) results.push(...(await repairAttachment(one, work)));
  if (options.what === "node") results.push(...(await repairPolicy(known, work)));
  const addresses = known.flatMap(({ record }) => record.addresses.map(({ address }) => address));
  results.push(...(await repairAddresses(addresses, work)));
  return results.length > 0 ? results : [result("repair", "nothing", well(options.name ?? "this host", "all is as it should be"))];
}

function isWanted({ what, name = "" }: RepairOptions): (known: Known) => boolean {
  if (what === "node") return () => true;
  return ({ record }) => (what === "pod" ? record.pod === name : record.attachment.containerId.startsWith(name));
}

const APPLY = "repeat the command with --yes";

async function repairAttachment(known: Known, work: Work): Promise<readonly CheckResult[]> {
  const { sources } = work;
  const { pod, attachment } = known.record;
  const object = ownerOf({ pod, containerId: attachment.containerId });
  const rules = rulesOf(sources.host, work.agent.policy);
  const { actions, left } = planRepair(await look(known, undefined, rules, sources));
  const results = left.map((what) =>
    result("repair", "left", warned(object, what, { next: `look at it with: tortiectl explain ${object}` })),
  );
  const about = { object, entry: aboutRecord(known.record) };
  for (const action of actions) results.push(...(await act(action, about, work, () => carryOut(action.kind, known, work))));
  return results;
}

/** Names what an action is about, for people and for the history. */
interface About {
  readonly object: string;
  readonly entry: Omit<HistoryEntry, "time" | "event" | "outcome" | "steps" | "message">;
}

/** Says what an action would do, or carries it out: in the history before and after. */
async function act(
  { kind, what }: RepairAction,
  { object, entry }: About,
  work: Work,
  carriedOut: () => Promise<readonly RepairNote[]>,
): Promise<readonly CheckResult[]> {
  if (!work.options.yes) return what.map((one) => result("repair", kind, warned(object, one, { next: APPLY })));
  noteRepair(entry, "warning", `begins: ${what.join("; ")}`, work);
  let notes: readonly RepairNote[];
  try {
    notes = await carriedOut();
  } catch (error) {
    noteRepair(entry, "failed", messageOf(error), work);
    const next = error instanceof TortieError ? error.next : "see the agent's log, then repair again";
    const word = error instanceof TortieError ? error.word : undefined;
    return [result("repair", kind, failed(object, messageOf(error), { next, word }))];
  }
  const isDone = notes.every(({ code }) => code === "OK");
  noteRepair(entry, isDone ? "ok" : "warning", notes.map(({ message }) => message).join("; ") || "nothing was left to do", work);
  const said = notes.length > 0 ? notes : [{ code: "OK" as const, message: "nothing was left to do" }];
  return said.map(({ code, message }) =>
    result("repair", kind, code === "OK" ? well(object, message) : failed(object, message, { next: `see: tortiectl explain ${object}` })),
  );
}

async function carryOut(kind: RepairKind, known: Known, { sources, agent }: Work): Promise<readonly RepairNote[]> {
  const { client } = agent;
  const { record } = known;
  const isAgents = endpointOf(record, agent) !== undefined;
  switch (kind) {
    case "mend":
      return client !== undefined && isAgents ? mendByAgent(client, record.id) : mendAlone(known, sources);
    case "remove":
      return client !== undefined && isAgents ? removeByAgent(client, record.id) : removeAlone(known, sources);
    case "record":
      return rewriteRecord(known, sources);
    case "policy":
      return client === undefined ? [] : openByAgent(client, record.hostInterface?.name ?? "", sources);
  }
}

/** Has the agent mend the policy's table, and asks the kernel whether the pod is known to it then. */
async function openByAgent(client: AgentClient, name: string, { host }: Sources): Promise<readonly RepairNote[]> {
  const notes = await mendPolicy(client, name);
  if (isKnownEndpoint(host, name) || notes.some(({ code }) => code !== "OK")) return notes;
  return [...notes, { code: "Warning", message: `${name} stays closed: the agent does not know whose it is` }];
}

/** Has the agent mend what its table has otherwise beside the pods that were looked at. */
async function repairPolicy(known: readonly Known[], { agent, options, ...work }: Work): Promise<readonly CheckResult[]> {
  const { client } = agent;
  if (client === undefined) return [];
  const { isEnforced, differences } = await askPolicy(client);
  const told = known.flatMap(({ record }) => [record.hostInterface?.name ?? "", ...record.addresses.map(({ address }) => address)]);
  // What was mended a moment ago is no difference any more.
  const what = differences.filter((one) => options.yes || !isNamed(one, told));
  if (!isEnforced || what.length === 0) return [];
  const action = { kind: "policy", what } as const;
  return act(action, { object: "this host", entry: { addresses: [] } }, { agent, options, ...work }, () => mendPolicy(client, undefined));
}

function noteRepair(entry: About["entry"], outcome: "ok" | "warning" | "failed", message: string, { history }: Work): void {
  history.note({ time: new Date().toISOString(), event: "repair", outcome, ...entry, steps: [], message });
}

const CHECKING: CheckOptions = { nowMs: systemClock.nowMs, graceMs: 900_000, isStrict: false, pause: () => Bun.sleep(1_000) };

/** Mends what contradicts itself about these addresses, by the rules of `tortiectl ipam check`. */
async function repairAddresses(addresses: readonly string[], work: Work): Promise<readonly CheckResult[]> {
  const { sources, options, terminal } = work;
  const { store } = sources;
  if (store === undefined || (addresses.length === 0 && options.what !== "node")) return [];
  const isWanted =
    options.what === "node" ? await ofThisNode(sources) : (problem: Problem) => problem.addresses.some((one) => addresses.includes(one));
  const problems = (await check(store.datastore, CHECKING)).filter(
    (one) => one.severity === "problem" && one.isRepairable && isWanted(one),
  );
  if (!options.yes)
    return problems.map((one) =>
      result("repair", "addresses", warned(one.object, `${one.message}: ${repairText(one.kind)}`, { next: APPLY, word: one.kind })),
    );
  const services = { datastore: store.datastore, clock: systemClock };
  const repaired = await repairEach(problems, services, lockOf(store, undefined, terminal));
  return repaired.map(({ problem: one, outcome }) => {
    const finding =
      outcome.outcome === "refused"
        ? failed(one.object, outcome.reason, { next: "decide by hand: tortiectl ipam check", word: one.kind })
        : well(one.object, outcome.outcome === "gone" ? "stands no longer" : repairText(one.kind));
    return result("repair", "addresses", finding);
  });
}

/** @returns whether a problem is about a block of this node */
async function ofThisNode({ store, node }: Sources): Promise<(problem: Problem) => boolean> {
  const blocks = (await store?.datastore.blocks.list())?.filter(({ value }) => value.affinity?.name === node) ?? [];
  const prefixes = blocks.flatMap(({ value }) => parsePrefix(value.cidr) ?? []);
  const cidrs = new Set(blocks.map(({ value }) => value.cidr));
  return ({ addresses, subject }) =>
    ("cidr" in subject && cidrs.has(subject.cidr)) ||
    addresses.some((text) => {
      const address = parseAddress(text);
      return address !== undefined && prefixes.some((prefix) => contains(prefix, address));
    });
}

/** Makes the host forward, masquerade and guard again, where Tortie does that. */
async function repairHost({ sources, options }: Work): Promise<readonly CheckResult[]> {
  const own = sources.lists[0];
  if (own === undefined) return [];
  const record = recordOfNetwork(sources, own);
  const { call, host } = servedOf(record, sources, "DEL");
  if (!call.forwardsOnNode) return [];
  const lacks = [
    ...(readSysctl("net/ipv4/ip_forward") === "1" ? [] : ["net/ipv4/ip_forward is not 1: nothing is forwarded to pods"]),
    ...(rulesOf(sources.host).hasTable
      ? []
      : ["table inet tortie is not there: pods' sources are not checked, and nothing is masqueraded"]),
  ];
  if (!options.yes) return lacks.map((one) => result("repair", "host", warned("this host", one, { next: APPLY })));
  if (lacks.length === 0) return [];
  await sources.dataplane.applyNode(await host.state(call, [hostPrefix({ family: 4, value: 0n })]));
  return lacks.map((one) => result("repair", "host", well("this host", `mended: ${one}`)));
}

function printReport(report: Report, { yes }: RepairOptions, terminal: Terminal): void {
  for (const one of report.results) printResult(one, terminal);
  const todo = report.results.filter(({ status }) => status !== "ok").length;
  if (!yes && todo > 0) terminal.out(terminal.colors.bold("nothing was changed: repeat the command with --yes to repair"));
}
