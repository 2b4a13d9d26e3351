/**
 * Defines what a probe can be asked to try from where it stands, and what it answers. Questions travel to a pod as JSON on its command
 * line, answers come back as JSON of at most 4 KiB: kubelet keeps no more of a container's termination message.
 */
import { field, isObject, isText, listOf, may, must, oneOf, type Reader } from "../../lib/json/decode.ts";
import { flag, number, type Shaped, shape, shapes, text } from "../../lib/json/shape.ts";

const QUESTION = {
  /** Names it among the questions of one call. */
  id: text,
  /**
   * `tcp`: connect, and ask who answers. `closed`: nobody must answer. `bulk`: a transfer in both directions. `datagram-…`: one packet of the
   * interface's whole MTU, to the peer or back. `spoof`: a packet with a foreign source. `rate-…`: how long a transfer takes. `lookup`: ask a
   * name server.
   */
  kind: must(oneOf("tcp", "closed", "bulk", "datagram-there", "datagram-back", "spoof", "rate-there", "rate-back", "lookup")),
  /** Address of the peer; for `lookup` of the name server, or "" for those of /etc/resolv.conf. */
  to: text,
  port: number,
  /** Bytes of a transfer. */
  bytes: may(number),
  /** The foreign source, or the name to look up. */
  subject: may(text),
};
/** One thing to try. */
export type Question = Shaped<typeof QUESTION>;

const ANSWER = {
  ok: flag,
  /** Why not: "timeout", or the kernel's word in capitals. */
  why: may(text),
  /** Who answered, or what the name server said. */
  text: may(text),
  /** Milliseconds of a transfer, or bytes of the largest packet that was tried. */
  value: may(number),
};
/** What came of one question. */
export type Answer = Shaped<typeof ANSWER>;

const WAY = {
  /** "" where no route leads there, "blackhole" where one drops what goes there. */
  device: text,
  /** Address of the next router; none on a link. */
  gateway: may(text),
};
/** Where the longest prefix leads. */
export type Way = Shaped<typeof WAY>;

const END = {
  mtu: number,
  proxyArp: flag,
  /** It passes on IPv4 packets that come in: IPv4 has such a setting for each interface. */
  forwards: flag,
  /** Kind of its root queue: "tbf" limits. */
  queue: text,
};
export type EndFacts = Shaped<typeof END>;

const FACTS = {
  /** By family. */
  forwarding: eachOf(flag),
  /** By name of the host end. */
  ends: eachOf(shape(END)),
  /** By address. */
  ways: eachOf(shape(WAY)),
};
/** What the kernel of a host says where something went wrong; only reading, and no privilege. */
export type HostFacts = Shaped<typeof FACTS>;

const WANTED = { ends: must(listOf(isText)), addresses: must(listOf(isText)) };
/** What the host's kernel is to be asked about. */
export type FactsWanted = Shaped<typeof WANTED>;

const request = shape({ questions: shapes(QUESTION), timeoutMs: number, facts: may(shape(WANTED)) });
export type ProbeRequest = ReturnType<typeof request>;

const reply = shape({ answers: eachOf(shape(ANSWER)), facts: may(shape(FACTS)) });
export type ProbeReply = ReturnType<typeof reply>;

/** @throws Error naming what is wrong */
export function parseRequest(text: string): ProbeRequest {
  return request({ request: JSON.parse(text) }, "request");
}

/** Reads what a probe printed: it ran in a pod, and its text is judged like any other. @throws Error naming what is wrong */
export function parseReply(text: string): ProbeReply {
  return reply({ reply: JSON.parse(text) }, "reply");
}

/** Reads an object whose members are alike. */
function eachOf<T>(read: Reader<T>): Reader<Readonly<Record<string, T>>> {
  return (object, name) => {
    const members = field(object, name, isObject);
    return Object.fromEntries(Object.keys(members).map((key) => [key, read(members, key)]));
  };
}
