/** Runs `tortiectl explain`: looks up what is known of a subject on this host, gives that to doctor/explain, and prints the explanation. */
import { hostname } from "node:os";
import { explain, isWord } from "../../../doctor/explain/explain.ts";
import type { AddressStanding, ExplainedAddress, Explanation, Subject } from "../../../doctor/explain/explanation.ts";
import type { AttachmentFacts, ExplainFacts } from "../../../doctor/explain/facts.ts";
import { exitStatus } from "../../../doctor/report.ts";
import { suggestionFor } from "../../../doctor/validate/finding.ts";
import type { HistoryEntry, HistoryQuery } from "../../../handover/history.ts";
import { parseGoTimestamp } from "../../../ipam-plugin/workload.ts";
import { formatAddress, parseAddress } from "../../../lib/addresses/address.ts";
import { ERROR_CATALOGUE } from "../../../lib/errors/error-catalogue.ts";
import { TortieError } from "../../../lib/errors/errors.ts";
import { VERSION } from "../../output.ts";
import { factsOf } from "../ipam/show-address.ts";
import type { Terminal } from "../terminal.ts";
import { endpointsHere, type Known, knownAttachments } from "./attachments.ts";
import { look } from "./look.ts";
import { printExplanation } from "./print.ts";
import { type Rules, rulesOf } from "./rules.ts";
import { type HereOptions, openSources, type Sources } from "./sources.ts";
import {
  type AgentSeen,
  addressResults,
  agentSeen,
  configurationResults,
  endpointOf,
  historyOf,
  logOf,
  policyResults,
  storeResults,
} from "./surroundings.ts";
import { whyThis } from "./why.ts";

/** Addresses younger than this may belong to an ADD under way. */
const GRACE_MS = 900_000;
const MOST_HISTORY = 50;

/** @returns exit status: 1 where something is wrong with the subject, or nothing is known of it */
export async function runExplain(subject: Subject, options: HereOptions, terminal: Terminal): Promise<number> {
  const explanation = await explainHere(subject, options);
  if (options.json) terminal.out(JSON.stringify(explanation, undefined, 2));
  else printExplanation(explanation, terminal);
  return explanation.standing === "absent" ? 1 : exitStatus(explanation);
}

/** @throws TortieError `option-invalid` for a name that can be none of its kind */
async function explainHere(subject: Subject, options: HereOptions): Promise<Explanation> {
  const asked = canonical(subject);
  const about = { time: new Date().toISOString(), host: hostname(), version: VERSION, subject: asked };
  const nothing = { attachments: [], addresses: [], history: [], surroundings: [], leftovers: [] };
  if (asked.kind === "word") return explain({ ...about, ...nothing });
  await using sources = await openSources(options);
  const agent = await agentSeen(sources);
  const endpoints = await endpointsHere(sources);
  const known = asked.at === undefined ? knownAttachments(sources, endpoints) : [];
  const rules = rulesOf(sources.host, agent.policy);
  const matching = known.filter((one) => isAbout(one, asked));
  const attachments = await Promise.all(matching.map((one) => look(one, endpointOf(one.record, agent), rules, sources)));
  const history = await historyAbout(asked, matching, agent, sources);
  const addresses = await addressesAbout(asked, attachments, sources);
  // Nothing can contradict itself about an address that no pool and no block has.
  const placed = addresses.filter(({ standing }) => standing !== "outside").map(({ address }) => address);
  const surroundings =
    asked.at === undefined
      ? [
          ...(await addressResults(sources, placed, { graceMs: GRACE_MS })),
          ...agent.results,
          ...policyResults(rules, agent, attachments),
          ...(await storeResults(sources)),
          ...(await configurationResults(sources)),
        ]
      : [];
  return explain({ ...about, attachments, addresses, history, surroundings, leftovers: leftoversOf(attachments, history, rules) });
}

/** @throws TortieError `option-invalid` */
function canonical(subject: Subject): Subject {
  const { kind, name, at } = subject;
  if (at !== undefined && Number.isNaN(Date.parse(at)))
    throw new TortieError("option-invalid", `--at "${at}" is not a time, such as 2026-11-26T09:30:00Z`);
  if (kind === "ip") {
    const address = parseAddress(name);
    if (address === undefined) throw new TortieError("option-invalid", `"${name}" is not an address`);
    return { ...subject, name: formatAddress(address) };
  }
  if (kind === "pod" && !/^[^/]+\/[^/]+$/.test(name))
    throw new TortieError("option-invalid", `"${name}" is not a pod's name: NAMESPACE/NAME is wanted`, {
      next: `give its namespace too: tortiectl explain pod default/${name}`,
    });
  if (kind === "word" && !isWord(name)) {
    throw new TortieError("option-invalid", `"${name}" is no word of docs/reference/errors.md`, { next: nextOfWord(name) });
  }
  return subject;
}

/** Says what was probably meant by what is no word. */
function nextOfWord(name: string): string {
  const subject = parseAddress(name) !== undefined ? "ip" : name.includes("/") ? "pod" : name.startsWith("cali") ? "interface" : undefined;
  const word = subject === undefined ? suggestionFor(name, Object.keys(ERROR_CATALOGUE)) : undefined;
  const meant = subject !== undefined ? `${subject} ${name}` : word;
  if (meant !== undefined) return `did you mean: tortiectl explain ${meant}`;
  return "name what is meant: pod NAMESPACE/NAME, ip ADDRESS, interface NAME or container ID; or a word such as addresses-exhausted";
}

function isAbout({ record, endpoint }: Known, { kind, name }: Subject): boolean {
  const { attachment, pod, addresses, hostInterface } = record;
  switch (kind) {
    case "pod":
      return pod === name;
    case "ip":
      return addresses.some(({ address }) => address === name) || endpoint?.ipNetworks.some((text) => text.startsWith(`${name}/`)) === true;
    case "interface":
      return hostInterface?.name === name;
    case "container":
      return attachment.containerId.startsWith(name);
    case "word":
      return false;
  }
}

/** An interface has no history of its own: its attachment has. */
function queryOf({ kind, name }: Subject, matching: readonly Known[]): HistoryQuery | undefined {
  switch (kind) {
    case "pod":
      return { pod: name };
    case "ip":
      return { address: name };
    case "container":
      return { container: name };
    default: {
      const container = matching[0]?.record.attachment.containerId;
      return container === undefined ? undefined : { container };
    }
  }
}

/** Joins the history of operations with the logs of the endpoints that are there, newest first. */
async function historyAbout(
  asked: Subject,
  matching: readonly Known[],
  agent: AgentSeen,
  sources: Sources,
): Promise<readonly HistoryEntry[]> {
  const query = queryOf(asked, matching);
  const past = query === undefined ? [] : await historyOf(sources, agent, query);
  if (asked.at !== undefined) return past;
  const { client } = agent;
  const ids = matching.flatMap(({ record }) => endpointOf(record, agent)?.id ?? []);
  const logs = client === undefined ? [] : (await Promise.all(ids.map((id) => logOf(client, id)))).flat();
  return [...past, ...logs].sort((one, other) => (one.time < other.time ? 1 : -1)).slice(0, MOST_HISTORY);
}

async function addressesAbout(
  asked: Subject,
  attachments: readonly AttachmentFacts[],
  sources: Sources,
): Promise<readonly ExplainedAddress[]> {
  const texts = asked.kind === "ip" ? [asked.name] : attachments.flatMap(({ shown }) => shown.addresses);
  return Promise.all([...new Set(texts)].map((text) => addressAbout(text, attachments, sources)));
}

const STANDINGS: readonly (readonly [string, AddressStanding])[] = [
  ["used", "used"],
  ["cooling", "cooling"],
  ["free", "free"],
  ["reserved", "reserved"],
];

async function addressAbout(text: string, attachments: readonly AttachmentFacts[], sources: Sources): Promise<ExplainedAddress> {
  const { store } = sources;
  const address = parseAddress(text);
  if (store === undefined || address === undefined) return { address: text, standing: "unknown" };
  try {
    const facts = await factsOf(store.datastore, address);
    const { standing = "", handle, node, pod, since, freeAgain, block, owner, pool } = facts;
    const word = STANDINGS.find(([begin]) => standing.startsWith(begin))?.[1] ?? "unknown";
    const user = attachments.find(({ shown }) => shown.addresses.includes(text));
    const why = word === "used" ? whyThis({ address: text, node, owner, pool, standing }, user, sources) : undefined;
    const sinceMs = parseGoTimestamp(since);
    const iso = sinceMs === undefined ? since : new Date(sinceMs).toISOString();
    const facets = { handle, node, pod, since: iso, freeAgain, block, blockOwner: owner, pool, why };
    const known = Object.fromEntries(Object.entries(facets).filter(([, value]) => value !== undefined));
    return { address: text, standing: word, ...known };
  } catch (error) {
    if (error instanceof TortieError && error.word === "address-outside-pools") return { address: text, standing: "outside" };
    return { address: text, standing: "unknown" };
  }
}

/** Finds what chained plugins have left of containers that have no network any more. */
function leftoversOf(attachments: readonly AttachmentFacts[], history: readonly HistoryEntry[], rules: Rules): ExplainFacts["leftovers"] {
  const alive = attachments.filter(({ sandbox }) => sandbox !== "gone").map(({ shown }) => shown.containerId);
  const known = [...attachments.map(({ shown }) => shown), ...history].flatMap(({ network, containerId }) =>
    network === undefined || containerId === undefined || alive.includes(containerId) ? [] : [{ network, containerId }],
  );
  const once = [...new Map(known.map((one) => [`${one.network} ${one.containerId}`, one])).values()];
  return once.flatMap((one) => rules.chainedOf(one).map(({ place, by }) => ({ place, by, containerId: one.containerId })));
}
