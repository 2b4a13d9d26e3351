/**
 * Names what a workload has, by rules that Felix follows too, so that nothing else may enter a name. Its endpoints (C§7.2): segments joined
 * by "-", in which each "-" of the segment itself is doubled; no segment begins or ends with "-", or names could not be taken apart again.
 * And the host ends of its links (C§4.1).
 */

import { MAX_INTERFACE_NAME } from "../cni/request.ts";
import { TortieError } from "../errors/errors.ts";
import { sha256 } from "../system/hash.ts";
import type { WorkloadIdentity } from "./identity.ts";

/** What a name is made of. An empty string is an unknown identifier. */
export interface EndpointIdentifiers {
  readonly node: string;
  readonly orchestrator: string;
  readonly pod: string;
  readonly containerId: string;
  /** Workload of any other orchestrator than `k8s`, `cni` and `libnetwork`. */
  readonly workload?: string;
  readonly endpoint: string;
}

/** The four segments of a full name; a prefix has fewer. `workload` is a pod, a container id or what the orchestrator calls its own. */
interface EndpointNameParts {
  readonly node: string;
  readonly orchestrator: string;
  readonly workload: string;
  readonly endpoint: string;
}

const SEGMENTS = 4;

/** What the one endpoint of a Kubernetes pod is called, whatever its interfaces are called (C§7.5). */
export const POD_ENDPOINT = "eth0";

/**
 * @throws TortieError `identity-invalid`: "error constructing WorkloadEndpoint name: error with field …" (recordings args-12, env-values)
 */
export function workloadEndpointName(identifiers: EndpointIdentifiers): string {
  return construct("name", identifiers, false);
}

/**
 * Gives the part of the name up to the first unknown identifier, ending with "-"; the whole name when all are known. Names of other
 * workloads may begin with it too: compare with `matchesEndpointName` (C§2.1 step 13).
 *
 * @throws TortieError `identity-invalid`: "error constructing WorkloadEndpoint prefix: …"
 */
export function workloadEndpointNamePrefix(identifiers: EndpointIdentifiers): string {
  return construct("prefix", identifiers, true);
}

/**
 * Takes a name or a prefix apart.
 * @returns `undefined` when it has more than four segments; missing segments are empty strings
 */
export function parseWorkloadEndpointName(name: string): EndpointNameParts | undefined {
  const segments = splitSegments(name);
  if (segments.length > SEGMENTS) return undefined;
  const [node = "", orchestrator = "", workload = "", endpoint = ""] = segments;
  return { node, orchestrator, workload, endpoint };
}

/** Tells whether a full name has every identifier that is known. */
export function matchesEndpointName(name: string, identifiers: EndpointIdentifiers): boolean {
  const segments = splitSegments(name);
  if (segments.length !== SEGMENTS) return false;
  return fieldsOf(identifiers).every(({ value }, index) => value === "" || value === segments[index]);
}

interface Field {
  readonly name: string;
  readonly value: string;
}

function construct(what: "name" | "prefix", identifiers: EndpointIdentifiers, mayEndEarly: boolean): string {
  const fail = (problem: string) =>
    new TortieError("identity-invalid", `error constructing WorkloadEndpoint ${what}: error with field ${problem}`);
  const segments: string[] = [];
  for (const { name, value } of fieldsOf(identifiers)) {
    if (value === "") {
      if (!mayEndEarly || name === "node") throw fail(`${name} (field should be assigned)`);
      return `${segments.join("-")}-`;
    }
    if (value.startsWith("-")) throw fail(`${name} = '${value}' (field must not begin with a '-')`);
    if (value.endsWith("-")) throw fail(`${name} = '${value}' (field must not end with a '-')`);
    segments.push(value.replaceAll("-", "--"));
  }
  return segments.join("-");
}

function fieldsOf({ node, orchestrator, pod, containerId, workload = "", endpoint }: EndpointIdentifiers): readonly Field[] {
  return [
    { name: "node", value: node },
    { name: "orchestrator", value: orchestrator },
    workloadField(),
    { name: "endpoint", value: endpoint },
  ];

  function workloadField(): Field {
    if (orchestrator === "k8s") return { name: "pod", value: pod };
    if (orchestrator === "cni") return { name: "containerID", value: containerId };
    return orchestrator === "libnetwork" ? { name: "orchestrator", value: orchestrator } : { name: "workload", value: workload };
  }
}

/** The first character is never a separator, so that the walk begins behind it (C§7.2). */
function splitSegments(name: string): string[] {
  const segments: string[] = [];
  let segment = name.slice(0, 1);
  for (let at = 1; at < name.length; at++) {
    if (name[at] !== "-") segment += name[at];
    else if (name[at + 1] === "-") {
      segment += "-";
      at++;
    } else {
      segments.push(segment);
      segment = "";
    }
  }
  segments.push(segment);
  return segments;
}

/** Digits of the digest, or characters of the container id. */
const DISTINCT_CHARACTERS = 11;

const DEFAULT_PREFIX = "cali";
/** Begins the names of the link form `endpoint` (A§3.3). */
const ENDPOINT_PREFIX = "lxc";

/**
 * Names the host end of a workload's link.
 * @param prefixes FELIX_INTERFACEPREFIX: a list joined by commas, whose first element serves pods; plain containers are always `cali…`
 * @throws TortieError `interface-prefix-invalid`
 */
export function hostInterfaceName(identity: WorkloadIdentity, prefixes: string | undefined): string {
  return identity.orchestrator === "k8s"
    ? podHostInterfaceName(identity.namespace, identity.pod, prefixes)
    : containerHostInterfaceName(identity.containerId);
}

/**
 * Does the same for DEL, which must not fail because of a prefix that no ADD can have worked with (recording prefix-long).
 * @returns "" when no link can have such a name
 */
export function hostInterfaceNameIfAny(identity: WorkloadIdentity, prefixes: string | undefined): string {
  try {
    return hostInterfaceName(identity, prefixes);
  } catch (error) {
    if (error instanceof TortieError && error.word === "interface-prefix-invalid") return "";
    throw error;
  }
}

/**
 * Says how the host ends begin that may be made with this list, of either form of link, and those that are there.
 * @param links names of host ends that are there
 * @throws TortieError `interface-prefix-invalid`
 */
export function guardedPrefixes(prefixes: string | undefined, links: readonly string[] = []): readonly string[] {
  const known = [...new Set([DEFAULT_PREFIX, ENDPOINT_PREFIX, firstPrefix(prefixes)])];
  return [...known, ...prefixesOfLinks(links, known)];
}

/** Says how the names of links that are there begin, where `known` does not cover them: a runtime may have had another list. */
export function prefixesOfLinks(names: readonly string[], known: readonly string[]): readonly string[] {
  const others = names.filter((name) => !known.some((prefix) => name.startsWith(prefix)));
  return [...new Set(others.map((name) => name.slice(0, -DISTINCT_CHARACTERS)))].filter((prefix) => prefix !== "").sort();
}

/** Joins the prefix and the leading hex digits of SHA-1 over `<namespace>.<pod>`. @throws TortieError `interface-prefix-invalid` */
export function podHostInterfaceName(namespace: string, pod: string, prefixes?: string): string {
  const prefix = firstPrefix(prefixes);
  const digest = new Bun.CryptoHasher("sha1").update(`${namespace}.${pod}`).digest("hex");
  return prefix + digest.slice(0, DISTINCT_CHARACTERS);
}

/** Joins `cali` and the first characters of the container id. */
export function containerHostInterfaceName(containerId: string): string {
  return DEFAULT_PREFIX + containerId.slice(0, DISTINCT_CHARACTERS);
}

/**
 * Refuses by name, where the kernel would only say "numerical result out of range" after addresses were taken (recording prefix-long).
 */
function firstPrefix(prefixes: string | undefined): string {
  const prefix = prefixes?.split(",")[0]?.trim() || DEFAULT_PREFIX;
  const longest = MAX_INTERFACE_NAME - DISTINCT_CHARACTERS;
  // C§7.1: what an endpoint's interface may be called.
  if (prefix.length > longest || !/^[A-Za-z0-9_.-]*$/.test(prefix)) {
    throw new TortieError(
      "interface-prefix-invalid",
      `FELIX_INTERFACEPREFIX: ${JSON.stringify(prefix)} cannot begin an interface name of ${MAX_INTERFACE_NAME} characters, ${DISTINCT_CHARACTERS} of which are needed`,
    );
  }
  return prefix;
}

/** Names the host end of the link form `endpoint`: `lxc` and the first digits of SHA-256 over `<containerID>:<ifname>` (A§3.3). */
export function endpointHostInterfaceName(containerId: string, interfaceName: string): string {
  return `${ENDPOINT_PREFIX}${sha256(`${containerId}:${interfaceName}`).slice(0, 12)}`;
}

/**
 * Makes the MAC of one end of a link of form `endpoint` (A§3.3): locally administered, and the same whenever the link is made again, so
 * that neighbours need not learn it again.
 */
export function endpointMac(containerId: string, interfaceName: string, end: "host" | "pod"): string {
  const digits = sha256(`${containerId}:${interfaceName}:${end}`).slice(0, 12);
  const octets = digits.match(/../g) ?? [];
  const first = (Number.parseInt(octets[0] ?? "", 16) & 0xfc) | 0x02;
  return [first.toString(16).padStart(2, "0"), ...octets.slice(1)].join(":");
}
