/** Tries what the questions ask, from the network namespace of this process. */
import { createSocket, type Socket as DatagramSocket } from "node:dgram";
import { promises as dns } from "node:dns";
import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { messageOf } from "../../../lib/errors/errors.ts";
import { systemErrorCode } from "../../../lib/system/errno.ts";
import { SYSTEM_CLOCK } from "../../../lib/system/waiting.ts";
import type { Answer, ProbeReply, ProbeRequest, Question } from "../question.ts";
import { isUnreachable, mtuOf, readHostFacts } from "./facts.ts";
import { datagramOf, MOST_BYTES } from "./serve.ts";
import { sendFrom } from "./spoof.ts";

const REFUSED = "ECONNREFUSED";
/** Name of a pod's interface. */
const INTERFACE = "eth0";
/** Headers of IP and UDP. */
const HEADERS = { 4: 28, 6: 48 } as const;
/** Datagrams may be lost without anybody's fault, and the first one of a path teaches its MTU. */
const DATAGRAMS = 4;
const BETWEEN_MS = 250;
/** A container that runs may need so long until it listens. */
const START_MS = 3_000;
/** Enough of another program's greeting to tell. */
const MOST_OF_AN_ANSWER = 300;

/** Answers all questions: transfers whose time counts one after the other, when the others are through. */
export async function answerAll({ questions, timeoutMs, facts }: ProbeRequest): Promise<ProbeReply> {
  const answers: [string, Answer][] = [];
  const isTimed = ({ kind }: Question) => kind.startsWith("rate-");
  const answered = async (question: Question) => void answers.push([question.id, await answerOf(question, timeoutMs)]);
  await Promise.all(questions.filter((one) => !isTimed(one)).map(answered));
  for (const question of questions.filter(isTimed)) await answered(question);
  return { answers: Object.fromEntries(answers), ...(facts !== undefined && { facts: readHostFacts(facts) }) };
}

async function answerOf(question: Question, timeoutMs: number): Promise<Answer> {
  try {
    return await ask(question, timeoutMs);
  } catch (error) {
    return { ok: false, why: systemErrorCode(error) ?? messageOf(error).slice(0, 60) };
  }
}

function ask(question: Question, timeoutMs: number): Promise<Answer> {
  switch (question.kind) {
    case "tcp":
      return askName(question, timeoutMs);
    case "closed":
      return untilClosed(question, timeoutMs);
    case "bulk":
      return bulk(question, timeoutMs);
    case "datagram-there":
      return datagramThere(question, timeoutMs);
    case "datagram-back":
      return datagramBack(question, timeoutMs);
    case "spoof":
      return spoof(question, timeoutMs);
    case "rate-there":
    case "rate-back":
      return rate(question, timeoutMs);
    case "lookup":
      return lookUp(question, timeoutMs);
  }
}

/** Connects, says one line, and reads what comes until the end. @throws the kernel's error, or Error `timeout` */
async function converse(
  { to, port }: Question,
  timeoutMs: number,
  line: string,
  payload?: Uint8Array,
): Promise<{ text: string; bytes: number }> {
  const socket = connect({ host: to, port });
  try {
    return await new Promise((done, failed) => {
      let [text, bytes] = ["", 0];
      const limit = setTimeout(() => failed(new Error("timeout")), timeoutMs);
      socket.on("close", () => clearTimeout(limit));
      socket.on("error", (error) => failed(systemErrorCode(error) === REFUSED && isUnreachable(to) ? new Error("ENETUNREACH") : error));
      socket.on("connect", () => {
        if (line === "") return done({ text: "", bytes: 0 });
        socket.write(`${line}\n`);
        if (payload !== undefined) socket.write(payload);
      });
      socket.on("data", (data: Buffer) => {
        bytes += data.length;
        if (text.length < MOST_OF_AN_ANSWER) text += data.toString("latin1", 0, MOST_OF_AN_ANSWER);
        if (bytes > MOST_BYTES) socket.destroy(new Error("too many bytes"));
      });
      socket.on("end", () => done({ text: text.trim(), bytes }));
    });
  } finally {
    end(socket);
  }
}

function end(socket: Socket): void {
  socket.removeAllListeners("data");
  socket.on("error", () => undefined);
  socket.destroy();
}

/** A peer that is not ours (no `subject`) need only shake hands; one of ours may not listen yet, and refuses until then. */
async function askName(question: Question, timeoutMs: number): Promise<Answer> {
  if (question.subject === undefined) {
    await converse(question, timeoutMs, "");
    return { ok: true };
  }
  const { text } = await whileRefused(START_MS, () => converse(question, timeoutMs, "name"));
  if (text === question.subject) return { ok: true };
  return { ok: false, why: "another", text: text.slice(0, 60) };
}

/** Repeats what is refused, for so long. @throws what the last try throws */
async function whileRefused<T>(limitMs: number, work: () => Promise<T>): Promise<T> {
  for (const end = SYSTEM_CLOCK.now() + limitMs; ; await SYSTEM_CLOCK.sleep(BETWEEN_MS)) {
    try {
      return await work();
    } catch (error) {
      if (systemErrorCode(error) !== REFUSED || SYSTEM_CLOCK.now() > end) throw error;
    }
  }
}

/** Whoever enforces a policy may need a moment for a new pod: asks until nobody answers. */
async function untilClosed(question: Question, timeoutMs: number): Promise<Answer> {
  const once = Math.min(timeoutMs, 2_000);
  for (const end = SYSTEM_CLOCK.now() + 2 * timeoutMs; ; await SYSTEM_CLOCK.sleep(BETWEEN_MS)) {
    try {
      await whileRefused(START_MS, () => converse(question, once, "name"));
    } catch (error) {
      return { ok: true, why: systemErrorCode(error) ?? messageOf(error) };
    }
    if (SYSTEM_CLOCK.now() > end) return { ok: false, why: "open" };
  }
}

async function bulk(question: Question, timeoutMs: number): Promise<Answer> {
  const bytes = question.bytes ?? 0;
  const there = await converse(question, timeoutMs, `take ${bytes}`, new Uint8Array(bytes));
  if (there.text !== "taken") return { ok: false, why: "there" };
  const back = await converse(question, timeoutMs, `give ${bytes}`);
  return back.bytes === bytes ? { ok: true } : { ok: false, why: "back" };
}

async function rate(question: Question, timeoutMs: number): Promise<Answer> {
  const bytes = question.bytes ?? 0;
  const begun = SYSTEM_CLOCK.now();
  // What a limit slows down is no failure: the transfer may take ten times the time of an answer.
  if (question.kind === "rate-there") await converse(question, 10 * timeoutMs, `take ${bytes}`, new Uint8Array(bytes));
  else await converse(question, 10 * timeoutMs, `give ${bytes}`);
  return { ok: true, value: Math.max(1, Math.round(SYSTEM_CLOCK.now() - begun)) };
}

/** @returns bytes of a datagram's payload that fills the interface's MTU */
function fullSize(to: string): { readonly mtu: number; readonly payload: number } {
  const mtu = mtuOf(INTERFACE) ?? 1280;
  return { mtu, payload: Math.min(mtu, 65_000) - HEADERS[to.includes(":") ? 6 : 4] };
}

function freshToken(): string {
  return `tortie-${Math.floor(SYSTEM_CLOCK.random() * 2 ** 48).toString(36)}`;
}

/** Repeats `attempt` until it succeeds. */
async function severalTimes(attempt: () => Promise<boolean>): Promise<boolean> {
  for (let n = 0; n < DATAGRAMS; n++) if (await attempt()) return true;
  return false;
}

/** @returns a socket for datagrams to an address, which is closed with its scope */
function datagramsTo(address: string): DatagramSocket {
  const socket = createSocket(address.includes(":") ? "udp6" : "udp4");
  // The kernel says by such an error that it has learnt a smaller MTU.
  return socket.on("error", () => undefined);
}

async function datagramThere(question: Question, timeoutMs: number): Promise<Answer> {
  const { mtu, payload } = fullSize(question.to);
  const token = freshToken();
  await using socket = datagramsTo(question.to);
  const ok = await severalTimes(async () => {
    socket.send(datagramOf(token, payload), question.port, question.to, () => undefined);
    await SYSTEM_CLOCK.sleep(BETWEEN_MS);
    return (await converse(question, timeoutMs, `seen ${token}`)).text === String(payload);
  });
  return { ok, value: mtu, ...(!ok && { why: "timeout" }) };
}

async function datagramBack(question: Question, timeoutMs: number): Promise<Answer> {
  const { mtu, payload } = fullSize(question.to);
  const token = freshToken();
  await using socket = datagramsTo(question.to);
  let largest = 0;
  socket.on("message", (message) => {
    if (message.subarray(0, token.length).toString("latin1") === token) largest = Math.max(largest, message.length);
  });
  await new Promise<void>((done) => socket.bind(0, done));
  const ok = await severalTimes(async () => {
    await converse(question, timeoutMs, `send ${socket.address().port} ${payload} ${token}`);
    await SYSTEM_CLOCK.sleep(BETWEEN_MS);
    return largest === payload;
  });
  return { ok, value: mtu, ...(!ok && { why: "timeout" }) };
}

/** Sends datagrams with a foreign source, and one with the own: only where the own one came does the absence of the others say anything. */
async function spoof(question: Question, timeoutMs: number): Promise<Answer> {
  const { to, port, subject = "" } = question;
  const [own, foreign] = [freshToken(), freshToken()];
  await using socket = datagramsTo(to);
  for (let n = 0; n < DATAGRAMS; n++) {
    const refused = sendFrom(subject, to, port, datagramOf(foreign, 100));
    if (refused !== undefined) return { ok: false, why: refused };
    socket.send(datagramOf(own, 100), port, to, () => undefined);
    await SYSTEM_CLOCK.sleep(BETWEEN_MS);
  }
  const came = async (token: string) => (await converse(question, timeoutMs, `seen ${token}`)).text !== "0";
  if (await came(foreign)) return { ok: false, why: "arrived" };
  return (await came(own)) ? { ok: true } : { ok: false, why: "timeout" };
}

/** An answer that no such name exists is an answer. */
const SAYS_NO: readonly string[] = ["ENOTFOUND", "ENODATA", "SERVFAIL", "ESERVFAIL", "EREFUSED", "ENONAME"];

async function lookUp({ to, port, subject = "" }: Question, timeoutMs: number): Promise<Answer> {
  const { servers, searched } = to === "" ? resolvConf() : { servers: [serverAt(to, port)], searched: [] };
  if (servers.length === 0) return { ok: false, why: "no-server" };
  const resolver = new dns.Resolver({ timeout: timeoutMs, tries: 2 });
  resolver.setServers(servers);
  let said = "";
  for (const name of [...searched.map((domain) => `${subject}.${domain}`), subject]) {
    try {
      return { ok: true, text: `${name} is ${(await resolver.resolve4(name))[0]}` };
    } catch (error) {
      said = systemErrorCode(error) ?? messageOf(error);
      if (!SAYS_NO.includes(said)) return { ok: false, why: said === "ETIMEOUT" ? "timeout" : said, text: servers.join(", ") };
    }
  }
  return { ok: true, text: `${servers.join(", ")} knows no ${subject}` };
}

/** In the form that node takes: the port is left out where it is the usual one. */
function serverAt(address: string, port: number): string {
  return port === 53 ? address : `${address.includes(":") ? `[${address}]` : address}:${port}`;
}

function resolvConf(): { readonly servers: readonly string[]; readonly searched: readonly string[] } {
  const words = readFileSync("/etc/resolv.conf", "utf8")
    .split("\n")
    .map((line) => line.trim().split(/\s+/));
  const servers = words.flatMap(([key, server = ""]) => (key === "nameserver" && server !== "" ? [server] : []));
  return { servers, searched: words.flatMap(([key, ...domains]) => (key === "search" ? domains : [])).slice(0, 6) };
}
