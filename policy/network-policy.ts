/**
 * Translates and judges NetworkPolicy objects, as the API's text and its validation have it (pkg/apis/networking/validation).
 *
 * An invalid policy opens nothing and closes what it selects, in the directions that it has. Where even that cannot be read, more is closed
 * rather than less: without a readable subject all pods of the policy's namespace, without readable policyTypes both directions.
 */
import { covers, maskPrefix, type Prefix, parsePrefix } from "../lib/addresses/address.ts";
import { isObject } from "../lib/json/decode.ts";
import type { PolicyObject } from "./model.ts";
import { blockPeer, LAST_PORT, type Peer, type Policy, type Ports, PROTOCOLS, podPeer, type Rule, type Tier } from "./rules.ts";
import { readSelector, selectorOf } from "./selector.ts";
import { asList, asObject, asText, member, type ObjectPart, type Part, SpecProblem, show } from "./spec.ts";

/** A pod that any NetworkPolicy selects is closed but for what they allow. */
export const NETWORK_POLICY_TIER: Tier = { order: 0, otherwise: "deny" };

const TCP = 6;
const LONGEST_PORT_NAME = 15;
const PORT_NAME = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/;

/** Never throws and never changes `policy`. */
export function translateNetworkPolicy(policy: PolicyObject): Policy {
  const { namespace, name, uid, resourceVersion } = policy;
  const problems: string[] = [];
  const object: ObjectPart = { path: "spec", value: isObject(policy.spec) ? policy.spec : {} };
  attempt(problems, undefined, () => asObject({ path: "spec", value: policy.spec }, ["podSelector", "ingress", "egress", "policyTypes"]));
  const subject = attempt(problems, selectorOf([]), () => readSelector(member(object, "podSelector")));
  const directions = attempt(problems, BOTH, () => (isObject(policy.spec) ? readDirections(object) : BOTH));
  const ingress = attempt(problems, [], () => readRules(member(object, "ingress"), "from", namespace));
  const egress = attempt(problems, [], () => readRules(member(object, "egress"), "to", namespace));
  const problem = problems[0];
  const isValid = problem === undefined;
  return {
    key: `${namespace}/${name}`,
    uid,
    resourceVersion,
    tier: NETWORK_POLICY_TIER,
    order: 0,
    subject: podPeer(namespace, subject),
    ingress: directions.ingress ? (isValid ? ingress : []) : undefined,
    egress: directions.egress ? (isValid ? egress : []) : undefined,
    problem,
  };
}

interface Directions {
  readonly ingress: boolean;
  readonly egress: boolean;
}

const BOTH: Directions = { ingress: true, egress: true };

/** Keeps the problem's sentence where a part is not what it must be. */
function attempt<T>(problems: string[], otherwise: T, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof SpecProblem)) throw error;
    problems.push(error.message);
    return otherwise;
  }
}

/** Without policyTypes a policy has ingress, and egress where it has rules for it. Rules of a direction that is not named are ignored. */
function readDirections(spec: ObjectPart): Directions {
  const types = asList(member(spec, "policyTypes"));
  if (types.length === 0) {
    const egress = member(spec, "egress").value;
    return { ingress: true, egress: Array.isArray(egress) ? egress.length > 0 : egress !== undefined };
  }
  if (types.length > 2) throw new SpecProblem("spec.policyTypes", `has ${types.length} entries, but there are two types`);
  const named = new Set(types.map(readType));
  return { ingress: named.has("Ingress"), egress: named.has("Egress") };
}

function readType({ path, value }: Part): "Ingress" | "Egress" {
  if (value === "Ingress" || value === "Egress") return value;
  throw new SpecProblem(path, `is ${show(value)}, not Ingress or Egress`);
}

function readRules(part: Part, peers: "from" | "to", namespace: string): readonly Rule[] {
  return asList(part).map((element, index): Rule => {
    const rule = asObject(element, [peers, "ports"]);
    const listed = asList(member(rule, peers));
    const ports = asList(member(rule, "ports"));
    return {
      action: "allow",
      number: index + 1,
      peers: listed.length === 0 ? "any" : listed.flatMap((peer) => readPeer(peer, namespace)),
      ports: ports.length === 0 ? "all" : ports.map(readPorts),
    };
  });
}

/** One peer, or none where nothing is set: the API refuses that, and no pod is selected by it. */
function readPeer(part: Part, namespace: string): readonly Peer[] {
  const peer = asObject(part, ["podSelector", "namespaceSelector", "ipBlock"]);
  const [pods, namespaces, block] = [member(peer, "podSelector"), member(peer, "namespaceSelector"), member(peer, "ipBlock")];
  const selectsPods = pods.value !== undefined || namespaces.value !== undefined;
  if (block.value !== undefined) {
    if (selectsPods) throw new SpecProblem(block.path, "stands beside a selector, which the API does not allow");
    return [readBlock(block)];
  }
  if (!selectsPods) return [];
  return [podPeer(namespaces.value === undefined ? namespace : readSelector(namespaces), readSelector(pods))];
}

function readBlock(part: Part): Peer {
  const object = asObject(part, ["cidr", "except"]);
  const block = readPrefix(member(object, "cidr"));
  const excepts = asList(member(object, "except")).map((except) => {
    const prefix = readPrefix(except);
    if (prefix.length > block.length && covers(block, prefix)) return prefix;
    throw new SpecProblem(except.path, `is ${show(except.value)}, which is no part of the block`);
  });
  return blockPeer(block, excepts);
}

/** Cuts host bits, as the API does. */
function readPrefix(part: Part): Prefix {
  const text = asText(part);
  const prefix = parsePrefix(text);
  // An IPv4-mapped address is read as IPv4, but its prefix length counts the bits of IPv6.
  if (prefix === undefined || (prefix.address.family === 4 && text.includes(":"))) {
    throw new SpecProblem(part.path, `is ${show(text)}, not an address and a prefix length`);
  }
  return maskPrefix(prefix);
}

/** Reads one entry: the protocol is TCP where none is named, and all its ports are meant where no port is. */
function readPorts(part: Part): Ports {
  const entry = asObject(part, ["protocol", "port", "endPort"]);
  const protocol = readProtocol(member(entry, "protocol"));
  const [port, end] = [member(entry, "port"), member(entry, "endPort")];
  if (typeof port.value === "number") {
    const first = readNumber(port);
    const last = end.value === undefined ? first : readNumber(end);
    if (last < first) throw new SpecProblem(end.path, `is ${last}, below port ${first}`);
    return { kind: "range", protocol, first, last };
  }
  if (end.value !== undefined) throw new SpecProblem(end.path, "is set, but port is no number");
  if (port.value === undefined) return { kind: "range", protocol, first: 0, last: LAST_PORT };
  return { kind: "name", protocol, name: readPortName(port) };
}

function readProtocol({ path, value }: Part): number {
  if (value === undefined) return TCP;
  const protocol = typeof value === "string" ? PROTOCOLS.get(value) : undefined;
  if (protocol === undefined) throw new SpecProblem(path, `is ${show(value)}, not TCP, UDP or SCTP`);
  return protocol;
}

function readNumber({ path, value }: Part): number {
  if (typeof value === "number" && Number.isInteger(value) && value >= 1 && value <= LAST_PORT) return value;
  throw new SpecProblem(path, `is ${show(value)}, not a number from 1 to ${LAST_PORT}`);
}

/** An IANA service name: lower-case letters, digits and single "-", at least one letter (apimachinery, IsValidPortName). */
function readPortName(part: Part): string {
  const name = asText(part);
  if (name.length <= LONGEST_PORT_NAME && PORT_NAME.test(name) && /[a-z]/.test(name) && !name.includes("--")) return name;
  throw new SpecProblem(part.path, `is ${show(name)}, which no port can be named`);
}
