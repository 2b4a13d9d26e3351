/** Makes the explanation of what was looked up: one sentence, what is right and wrong, and the next step. Pure. */
import { assignmentsOf, type HistoryEntry, wasAssigned } from "../../handover/history.ts";
import { ERROR_CATALOGUE, entryOf } from "../../lib/errors/error-catalogue.ts";
import type { ErrorWord } from "../../lib/errors/errors.ts";
import { type CheckResult, failed, result, warned } from "../report.ts";
import type { Explanation, Standing, Subject, SubjectKind } from "./explanation.ts";
import { type ExplainFacts, ownerOf } from "./facts.ts";
import { judgeAttachment } from "./judge.ts";

const ELSEWHERE = "look for it on its own node, or in what the runtime says: kubectl describe pod";
const ABSENT: Readonly<Record<SubjectKind, string>> = {
  pod: ELSEWHERE,
  container: ELSEWHERE,
  interface: "see the host ends of this node with: tortiectl node endpoints",
  ip: "it is not Tortie's to give: see whether the host itself has it (ip address), and which pools there are (tortiectl ipam show)",
  word: "",
};
const NOTHING_TO_DO = "nothing: all is as it should be";

export function explain(facts: ExplainFacts): Explanation {
  const { time, host, version, subject, attachments, addresses, history, surroundings } = facts;
  const results = bySeverity([...attachments.flatMap(judgeAttachment), ...lastFailure(facts), ...leftBehind(facts), ...surroundings]);
  const standing = standingOf(facts);
  const summary = summaryOf(facts);
  const word = isWord(subject.name) && subject.kind === "word" ? wordOf(subject.name) : undefined;
  return {
    time,
    host,
    version,
    subject,
    standing,
    summary,
    attachments: attachments.map(({ shown }) => shown),
    addresses,
    history,
    results,
    ...(word !== undefined && { word }),
    next: word?.next ?? nextOf(results, standing, subject),
  };
}

function nextOf(results: readonly CheckResult[], standing: Standing, { kind, at }: Subject): string {
  const gravest = results.find(({ status }) => status === "failed") ?? results.find(({ status }) => status === "warning");
  if (gravest?.next !== undefined) return gravest.next;
  if (standing !== "absent") return NOTHING_TO_DO;
  if (at !== undefined) return "the history begins with this boot at the latest: look at its first entries with: tortiectl ipam history";
  return ABSENT[kind];
}

const SEVERITY = { failed: 0, warning: 1, skipped: 2, ok: 3 } as const;

function bySeverity(results: readonly CheckResult[]): readonly CheckResult[] {
  return [...results].sort((one, other) => SEVERITY[one.status] - SEVERITY[other.status]);
}

/** Tells whether the text is a word of docs/reference/errors.md. */
export function isWord(text: string): text is ErrorWord {
  return Object.hasOwn(ERROR_CATALOGUE, text);
}

export function wordOf(word: ErrorWord) {
  return { word, ...entryOf(word) };
}

function standingOf({ subject, attachments, addresses, history }: ExplainFacts): Standing {
  if (subject.kind === "word") return "word";
  if (subject.at !== undefined) return assignmentsAt(history, subject.at).length > 0 ? "past" : "absent";
  if (attachments.length > 0) return "present";
  const known = addresses.filter(({ standing }) => standing !== "outside" && standing !== "unknown");
  if (subject.kind === "ip" && known.length > 0) return "present";
  return history.length > 0 ? "past" : "absent";
}

function assignmentsAt(history: readonly HistoryEntry[], at: string) {
  return assignmentsOf(history).filter((one) => wasAssigned(one, Date.parse(at)));
}

function summaryOf(facts: ExplainFacts): string {
  const { subject, attachments, history } = facts;
  if (subject.kind === "word") return `${subject.name} is a word of docs/reference/errors.md`;
  if (subject.at !== undefined) return summaryAt(facts, subject.at);
  if (subject.kind === "ip") return addressSummary(facts);
  const [first, ...others] = attachments;
  if (first !== undefined && others.length === 0) {
    const { shown, sandbox } = first;
    const since = shown.since === undefined ? "" : ` since ${shown.since}`;
    const has = `${ownerOf(shown)} has ${shown.addresses.join(" and ") || "no address"} on ${shown.hostEnd?.name ?? "no interface"}${since}`;
    return sandbox === "gone" ? `${has}, but its sandbox is gone` : sandbox === "lost" ? `${has}, but its link is gone` : has;
  }
  if (attachments.length > 0) return `${subject.name} stands for ${attachments.length} attachments`;
  const [newest] = history;
  if (newest === undefined)
    return `nothing is known of ${subject.kind} ${subject.name} on this host: no attachment, no record and no history`;
  const failure = newest.outcome === "failed" ? ` failed: ${newest.message ?? newest.word ?? "no reason is known"}` : "";
  return `${subject.kind} ${subject.name} is not attached here; its last ${newest.event.toUpperCase()}, at ${newest.time},${failure || " succeeded"}`;
}

function summaryAt({ subject, history }: ExplainFacts, at: string): string {
  const then = assignmentsAt(history, at);
  if (then.length === 0) return `the history knows of nobody who had ${subject.name} at ${at}`;
  const who = then.map((one) => `${ownerOf(one)} had ${one.address} from ${one.from ?? "some time before"} to ${one.until ?? "now"}`);
  return who.join("; ");
}

function addressSummary({ subject, attachments, addresses, history }: ExplainFacts): string {
  const users = attachments.map(({ shown }) => ownerOf(shown));
  const [address] = addresses;
  if (users.length > 1) return `${subject.name} is used by ${users.length} attachments: ${users.join(", ")}`;
  const [last] = assignmentsOf(history);
  const before =
    users.length === 0 && last?.until !== undefined
      ? `; ${ownerOf(last)} had it from ${last.from ?? "some time before"} to ${last.until}`
      : "";
  switch (address?.standing) {
    case "used": {
      const holder = address.pod === undefined ? `handle ${address.handle ?? "of nobody"}` : `pod ${address.pod}`;
      const since = address.since === undefined ? "" : ` since ${address.since}`;
      return users.length === 0
        ? `${subject.name} is granted to ${holder}${since}, and no attachment of this host has it${before}`
        : `${subject.name} is ${users[0]}'s${since}`;
    }
    case "cooling":
      return `${subject.name} was given back a moment ago and is kept from others until ${address.freeAgain ?? "its cooldown is over"}${before}`;
    case "free":
      return users.length === 0 ? `${subject.name} is free${before}` : `${subject.name} is ${users[0]}'s, but nobody has granted it`;
    case "reserved":
      return `${subject.name} is reserved by an IPReservation: no pod is given it`;
    case "outside":
      return `${subject.name} is in no pool and in no block${users.length === 0 ? "" : `, but ${users[0]} has it`}`;
    default:
      return users.length === 0 ? `nobody could be asked whose ${subject.name} is${before}` : `${subject.name} is ${users[0]}'s`;
  }
}

/** Says why it has no network: the newest operation failed. */
function lastFailure({ subject, attachments, history }: ExplainFacts): readonly CheckResult[] {
  if (subject.at !== undefined || attachments.some(({ sandbox }) => sandbox === "there")) return [];
  const newest = history.find(({ event }) => event === "add" || event === "del");
  if (newest?.outcome !== "failed") return [];
  const { event, time, message = "no reason is known", word } = newest;
  const next =
    newest.next ?? (word !== undefined && isWord(word) ? entryOf(word).next : "read the plugin that failed in the runtime's log");
  return [result("attachment", "last-operation", failed(`${event.toUpperCase()} of ${time}`, message, { next, word }))];
}

function leftBehind({ leftovers }: ExplainFacts): readonly CheckResult[] {
  return leftovers.map(({ place, by, containerId }) => {
    const message = `${by} made it for container ${containerId}, which has no network any more: its traffic still goes there`;
    const next = `run the whole chain's DEL: tortiectl cni del LIST NETNS --container-id ${containerId}; or remove ${place} by hand`;
    return result("chained plugins", "leftover", warned(place, message, { next }));
  });
}
