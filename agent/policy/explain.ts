/**
 * Says without a packet whether a connection would pass, and what decides: finds both ends by their names and asks the engine, once for each
 * pair of addresses of the same family. Names of ports are those of the destination's pod, which is asked for only where one is meant.
 */
import type { Direction } from "../../dataplane/packet-policy.ts";
import { type Address, type Family, formatAddress, isSameAddress, parseAddress } from "../../lib/addresses/address.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { excerpt } from "../../lib/log/format.ts";
import type { Judgement, NamedPort, SideJudgement } from "../../policy/model.ts";
import { portNumbers } from "../../policy/profile.ts";
import type { PolicyView, ViewedEndpoint } from "./view.ts";

/** Looked at of two ends with several addresses each, as a pod with several networks has them. */
const MOST_PAIRS = 16;
const MOST_NAME_SHOWN = 300;

/** IP protocol number for each family. */
const PROTOCOLS = { TCP: [6, 6], UDP: [17, 17], SCTP: [132, 132], ICMP: [1, 58] } as const;
export type ProtocolName = keyof typeof PROTOCOLS;
export const PROTOCOL_NAMES: readonly ProtocolName[] = ["TCP", "UDP", "SCTP", "ICMP"];

export interface Question {
  readonly from: string;
  readonly to: string;
  readonly protocol: ProtocolName;
  /** A number, or what the destination's pod calls it; `undefined` for a protocol without ports. */
  readonly port: number | string | undefined;
}

/** An end of the connection, as it was found. */
export interface FoundEnd {
  /** "namespace/name"; `undefined`: no pod that is known. */
  readonly pod: string | undefined;
  /** `undefined`: it is not on this node. */
  readonly hostInterface: string | undefined;
  readonly addresses: readonly Address[];
  readonly identity: number | undefined;
}

export interface PairVerdict {
  readonly family: Family;
  readonly source: string;
  readonly destination: string;
  readonly verdict: Judgement["verdict"];
  readonly egress: SideJudgement | undefined;
  readonly ingress: SideJudgement | undefined;
  /** What the verdict leaves out, for an administrator. */
  readonly notes: readonly string[];
}

export interface Explanation {
  readonly from: FoundEnd;
  readonly to: FoundEnd;
  /** The number, where a name was asked about. */
  readonly port: number | undefined;
  readonly pairs: readonly PairVerdict[];
}

/** What is asked of the policies. */
export type ExplainView = Pick<PolicyView, "judge" | "endpoints" | "addressesOf" | "podAt" | "portsOf" | "identityOf">;

/**
 * @param isOwn whether an address is this host's own
 * @throws TortieError `policy-end-unknown`, `endpoint-ambiguous`, `call-invalid` where the ends have no family in common, or the port's
 * name means no number
 */
export async function explain(view: ExplainView, question: Question, isOwn: (address: Address) => boolean): Promise<Explanation> {
  const [from, to] = [findEnd(view, question.from), findEnd(view, question.to)];
  const pairs = from.addresses.flatMap((source) =>
    to.addresses.filter(({ family }) => family === source.family).map((destination) => ({ source, destination })),
  );
  if (pairs.length === 0) {
    throw new TortieError("call-invalid", `${shown(question.from)} and ${shown(question.to)} have no address of the same family`);
  }
  const { protocol } = question;
  const port = typeof question.port === "string" ? await portNamed(view, to, question.port, protocol) : question.port;
  const judge = (ports?: Ports) => pairs.slice(0, MOST_PAIRS).map((pair) => judged(view, { protocol, port, ports }, pair, isOwn));
  const found = judge();
  const isLacking = found.some(({ egress, ingress }) => egress?.lacksPorts === true || ingress?.lacksPorts === true);
  return { from, to, port, pairs: isLacking ? judge(await portsOf(view, to)) : found };
}

/** What the destination's pod calls its ports, or why nobody knows. */
type Ports = readonly NamedPort[] | { readonly unknown: string };

async function portsOf(view: ExplainView, { pod, addresses }: FoundEnd): Promise<Ports> {
  const [address] = addresses;
  const key = pod ?? (address && view.podAt(address));
  if (key === undefined) return { unknown: "it is no pod that is known, and only pods name ports" };
  try {
    return await view.portsOf(key);
  } catch (error) {
    return { unknown: messageOf(error) };
  }
}

/** @throws TortieError `call-invalid` where the name means no port of the destination, or several */
async function portNamed(view: ExplainView, to: FoundEnd, name: string, protocol: ProtocolName): Promise<number> {
  const ports = await portsOf(view, to);
  const end = to.pod ?? to.addresses.map(formatAddress).join(", ");
  const refuse = (why: string) => new TortieError("call-invalid", `port ${shown(name)} of ${end}: ${why}; ask with its number`);
  if ("unknown" in ports) throw refuse(`its ports are not known here: ${ports.unknown}`);
  const numbers = portNumbers(ports, name, PROTOCOLS[protocol][0]);
  const [number, ...more] = numbers;
  if (number === undefined) throw refuse(`it names no port of ${protocol} so${listOf(ports)}`);
  if (more.length > 0) throw refuse(`it means ${numbers.join(" and ")}`);
  return number;
}

function listOf(ports: readonly NamedPort[]): string {
  const names = ports.map(({ name, protocol, port }) => `${name} (${port}/${protocol})`);
  return names.length === 0 ? "" : `, but ${excerpt(names.join(", "), MOST_NAME_SHOWN)}`;
}

/**
 * Finds an end by its name: a pod as "namespace/name", a pod of this node by its name alone, an address, or a host end.
 * @throws TortieError `policy-end-unknown`, `endpoint-ambiguous`
 */
function findEnd(view: ExplainView, name: string): FoundEnd {
  const address = parseAddress(name);
  const endpoints = view.endpoints();
  if (address !== undefined) return endAt(view, endpoints, address);
  const local = localEndpoint(endpoints, name);
  if (local !== undefined) return { ...local, identity: identityOf(view, local.pod) };
  const addresses = name.includes("/") ? view.addressesOf(name) : [];
  if (addresses.length > 0) return { pod: name, hostInterface: undefined, addresses, identity: view.identityOf(name) };
  throw new TortieError("policy-end-unknown", `there is no pod and no endpoint that is called ${shown(name)}, or it has no address yet`);
}

function endAt(view: ExplainView, endpoints: readonly ViewedEndpoint[], address: Address): FoundEnd {
  const local = endpointAt(endpoints, address);
  const pod = local === undefined ? view.podAt(address) : local.pod;
  return { pod, hostInterface: local?.hostInterface, addresses: [address], identity: identityOf(view, pod) };
}

function identityOf(view: ExplainView, pod: string | undefined): number | undefined {
  return pod === undefined ? undefined : view.identityOf(pod);
}

function endpointAt(endpoints: readonly ViewedEndpoint[], address: Address): ViewedEndpoint | undefined {
  return endpoints.find(({ addresses }) => addresses.some((one) => isSameAddress(one, address)));
}

/**
 * Finds an endpoint of this node by its pod (with or without its namespace) or its host end.
 * @returns `undefined` where there is none @throws TortieError `endpoint-ambiguous`
 */
function localEndpoint(endpoints: readonly ViewedEndpoint[], name: string): ViewedEndpoint | undefined {
  const exact = endpoints.filter(({ hostInterface, pod }) => hostInterface === name || pod === name);
  const found = exact.length > 0 ? exact : endpoints.filter(({ pod }) => pod?.slice(pod.indexOf("/") + 1) === name);
  if (found.length < 2) return found[0];
  const names = found.map(({ hostInterface, pod }) => (pod === name ? hostInterface : `${pod} (${hostInterface})`));
  throw new TortieError("endpoint-ambiguous", `${shown(name)} could be ${names.join(", ")}`, {
    next: "name one of those that the message lists",
  });
}

/**
 * Finds the host end that is meant, for a list of its drops.
 * @throws TortieError `endpoint-unknown`, `endpoint-ambiguous`
 */
export function hostEndNamed(view: Pick<PolicyView, "endpoints" | "drops">, name: string): string {
  const address = parseAddress(name);
  const endpoints = view.endpoints();
  const found = address === undefined ? localEndpoint(endpoints, name) : endpointAt(endpoints, address);
  if (found !== undefined) return found.hostInterface;
  // One that nobody knows, or that is gone, may have had drops.
  if (view.drops.recent(name).length > 0) return name;
  throw new TortieError("endpoint-unknown", `no endpoint of this node is called ${shown(name)}`);
}

type Pair = { readonly source: Address; readonly destination: Address };

interface Asked {
  readonly protocol: ProtocolName;
  readonly port: number | undefined;
  readonly ports: Ports | undefined;
}

function judged(view: ExplainView, asked: Asked, pair: Pair, isOwn: (address: Address) => boolean): PairVerdict {
  const { source, destination } = pair;
  const { port, ports } = asked;
  const { family } = source;
  const ends = { family, source: formatAddress(source), destination: formatAddress(destination) };
  if (isOwn(source)) {
    const note = `${ends.source} is this host itself: what a host sends to its own pods is not judged, so that probes reach them`;
    return { ...ends, verdict: "allow", egress: undefined, ingress: undefined, notes: [note] };
  }
  const protocol = PROTOCOLS[asked.protocol][family === 4 ? 0 : 1];
  const destinationPorts = ports === undefined || "unknown" in ports ? undefined : ports;
  const { verdict, egress, ingress } = view.judge({ source, destination, protocol, port, destinationPorts });
  const notes = [
    ...(egress === undefined ? [missing(view, source, "egress")] : []),
    ...(ingress === undefined ? [missing(view, destination, "ingress")] : []),
    ...(ports !== undefined && "unknown" in ports ? [portsUnknown(view, destination, ports.unknown)] : []),
  ];
  return { ...ends, verdict, egress, ingress, notes };
}

/** Says why one side is not judged. A pod of any node is, as soon as its labels are known. */
function missing(view: ExplainView, address: Address, direction: Direction): string {
  const pod = view.podAt(address);
  if (pod === undefined) return `${formatAddress(address)} is no pod that is known: nothing here judges its side`;
  return `the labels of ${pod} are not known yet: nothing here judges its ${direction}`;
}

/** Says why a verdict may be wrong: a rule names a port whose number nobody here knows. */
function portsUnknown(view: ExplainView, address: Address, why: string): string {
  const end = view.podAt(address) ?? formatAddress(address);
  return `a rule names a port, and what ${end} calls its ports is not known here (${why}): the verdict may be another, so ask on its node`;
}

function shown(name: string): string {
  return JSON.stringify(excerpt(name, MOST_NAME_SHOWN));
}
