/**
 * Defines what a probe can be asked to try from where it stands, and what it answers. Questions travel to a pod as JSON on its command
 * line, answers come back as JSON of at most 4 KiB: kubelet keeps no more of a container's termination message.
 */
import { type Fields, field, isNumber, isObject, isText, may, must, oneOf, type Readers, readAll } from "../../lib/json/decode.ts";

const KINDS = ["tcp", "closed", "bulk", "datagram-there", "datagram-back", "spoof", "rate-there", "rate-back", "lookup"] as const;

/** One thing to try. */
export interface Question {
  /** Names it among the questions of one call. */
  readonly id: string;
  /**
   * `tcp`: connect, and ask who answers. `closed`: nobody must answer. `bulk`: a transfer in both directions. `datagram-…`: one packet of the
   * interface's whole MTU, to the peer or back. `spoof`: a packet with a foreign source. `rate-…`: how long a transfer takes. `lookup`: ask a
   * name server.
   */
  readonly kind: (typeof KINDS)[number];
  /** Address of the peer; for `lookup` of the name server, or "" for those of /etc/resolv.conf. */
  readonly to: string;
  readonly port: number;
  /** Bytes of a transfer. */
  readonly bytes?: number | undefined;
  /** The foreign source, or the name to look up. */
  readonly subject?: string | undefined;
}

/** What came of one question. */
export interface Answer {
  readonly ok: boolean;
  /** Why not: "timeout", or the kernel's word in capitals. */
  readonly why?: string | undefined;
  /** Who answered, or what the name server said. */
  readonly text?: string | undefined;
  /** Milliseconds of a transfer, or bytes of the largest packet that was tried. */
  readonly value?: number | undefined;
}

/** What the kernel of a host says where something went wrong; only reading, and no privilege. */
export interface HostFacts {
  /** By family. */
  readonly forwarding: Readonly<Record<string, boolean>>;
  /** By name of the host end. */
  readonly ends: Readonly<Record<string, EndFacts>>;
  /** By address. */
  readonly ways: Readonly<Record<string, Way>>;
}

/** Where the longest prefix leads. */
export interface Way {
  /** "" where no route leads there, "blackhole" where one drops what goes there. */
  readonly device: string;
  /** Address of the next router; none on a link. */
  readonly gateway?: string | undefined;
}

export interface EndFacts {
  readonly mtu: number;
  readonly proxyArp: boolean;
  /** It passes on IPv4 packets that come in: IPv4 has such a setting for each interface. */
  readonly forwards: boolean;
  /** Kind of its root queue: "tbf" limits. */
  readonly queue: string;
}

/** What the host's kernel is to be asked about. */
export interface FactsWanted {
  readonly ends: readonly string[];
  readonly addresses: readonly string[];
}

export interface ProbeRequest {
  readonly questions: readonly Question[];
  readonly timeoutMs: number;
  readonly facts?: FactsWanted;
}

export interface ProbeReply {
  readonly answers: Readonly<Record<string, Answer>>;
  readonly facts?: HostFacts | undefined;
}

const QUESTION: Readers<Question> = {
  id: must(isText),
  kind: must(oneOf(...KINDS)),
  to: must(isText),
  port: must(isNumber),
  bytes: may(isNumber),
  subject: may(isText),
};

const ANSWER: Readers<Answer> = { ok: must(isBoolean), why: may(isText), text: may(isText), value: may(isNumber) };
const END: Readers<EndFacts> = { mtu: must(isNumber), proxyArp: must(isBoolean), forwards: must(isBoolean), queue: must(isText) };

const WAY: Readers<Way> = { device: must(isText), gateway: may(isText) };

function isBoolean(value: unknown): value is boolean {
  return typeof value === "boolean";
}

/** @throws Error naming what is wrong */
export function parseRequest(text: string): ProbeRequest {
  const request: Fields = field({ request: JSON.parse(text) }, "request", isObject);
  const questions = field(request, "questions", isList).map((one) => readAll(QUESTION, one));
  const timeoutMs = field(request, "timeoutMs", isNumber);
  if (request.facts === undefined) return { questions, timeoutMs };
  const facts = field(request, "facts", isObject);
  return { questions, timeoutMs, facts: { ends: field(facts, "ends", isTexts), addresses: field(facts, "addresses", isTexts) } };
}

/** Reads what a probe printed: it ran in a pod, and its text is judged like any other. @throws Error naming what is wrong */
export function parseReply(text: string): ProbeReply {
  const reply: Fields = field({ reply: JSON.parse(text) }, "reply", isObject);
  const answers = mapped(field(reply, "answers", isObject), (one) => readAll(ANSWER, one));
  if (reply.facts === undefined) return { answers };
  const facts = field(reply, "facts", isObject);
  return {
    answers,
    facts: {
      forwarding: mapValues(field(facts, "forwarding", isObject), isBoolean),
      ends: mapped(field(facts, "ends", isObject), (one) => readAll(END, one)),
      ways: mapped(field(facts, "ways", isObject), (one) => readAll(WAY, one)),
    },
  };
}

function isList(value: unknown): value is readonly Fields[] {
  return Array.isArray(value) && value.every(isObject);
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every(isText);
}

function mapped<T>(object: Fields, read: (one: Fields) => T): Readonly<Record<string, T>> {
  return Object.fromEntries(Object.keys(object).map((name) => [name, read(field(object, name, isObject))]));
}

function mapValues<T>(object: Fields, guard: (value: unknown) => value is T): Readonly<Record<string, T>> {
  return Object.fromEntries(Object.keys(object).map((name) => [name, field(object, name, guard)]));
}
