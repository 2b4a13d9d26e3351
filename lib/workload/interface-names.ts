/** Names of host ends (C§4.1). Felix computes the same ones from what it knows, so nothing else may enter them. */

import { TortieError } from "../errors/errors.ts";
import type { WorkloadIdentity } from "./identity.ts";

/** Longest interface name: IFNAMSIZ less the terminating zero (include/uapi/linux/if.h). */
const MAX_INTERFACE_NAME = 15;

/** Digits of the digest, or characters of the container id. */
const DISTINCT_CHARACTERS = 11;

const DEFAULT_PREFIX = "cali";
/** Of the link form `endpoint` (A§3.3). */
const ENDPOINT_PREFIX = "lxc";

/**
 * Name of the host end of a workload's link.
 * @param prefixes FELIX_INTERFACEPREFIX: a list joined by commas, whose first element serves pods; plain containers are always `cali…`
 * @throws TortieError `interface-prefix-invalid`
 */
export function hostInterfaceName(identity: WorkloadIdentity, prefixes: string | undefined): string {
  return identity.orchestrator === "k8s"
    ? podHostInterfaceName(identity.namespace, identity.pod, prefixes)
    : containerHostInterfaceName(identity.containerId);
}

/**
 * The same for DEL, which must not fail because of a prefix that no ADD can have worked with (recording prefix-long).
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
 * How the host ends begin that may be made with this list, of either form of link.
 * @throws TortieError `interface-prefix-invalid`
 */
export function guardedPrefixes(prefixes: string | undefined): readonly string[] {
  return [...new Set([DEFAULT_PREFIX, ENDPOINT_PREFIX, firstPrefix(prefixes)])];
}

/** How the names of links that are there begin, where `known` does not cover them: a runtime may have had another list. */
export function prefixesOfLinks(names: readonly string[], known: readonly string[]): readonly string[] {
  const others = names.filter((name) => !known.some((prefix) => name.startsWith(prefix)));
  return [...new Set(others.map((name) => name.slice(0, -DISTINCT_CHARACTERS)))].filter((prefix) => prefix !== "").sort();
}

/** Prefix and leading hex digits of SHA-1 over `<namespace>.<pod>`. @throws TortieError `interface-prefix-invalid` */
export function podHostInterfaceName(namespace: string, pod: string, prefixes?: string): string {
  const prefix = firstPrefix(prefixes);
  const digest = new Bun.CryptoHasher("sha1").update(`${namespace}.${pod}`).digest("hex");
  return prefix + digest.slice(0, DISTINCT_CHARACTERS);
}

/** `cali` and the first characters of the container id. */
export function containerHostInterfaceName(containerId: string): string {
  return DEFAULT_PREFIX + containerId.slice(0, DISTINCT_CHARACTERS);
}

/**
 * Refused by name, where the kernel would only say "numerical result out of range" after addresses were taken (recording prefix-long).
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

/** Host end of the link form `endpoint`: `lxc` and the first digits of SHA-256 over `<containerID>:<ifname>` (A§3.3). */
export function endpointHostInterfaceName(containerId: string, interfaceName: string): string {
  return `${ENDPOINT_PREFIX}${sha256(`${containerId}:${interfaceName}`).slice(0, 12)}`;
}

/**
 * MAC of one end of a link of form `endpoint` (A§3.3): locally administered, and the same whenever the link is made again, so that
 * neighbours need not learn it again.
 */
export function endpointMac(containerId: string, interfaceName: string, end: "host" | "pod"): string {
  const digits = sha256(`${containerId}:${interfaceName}:${end}`).slice(0, 12);
  const octets = digits.match(/../g) ?? [];
  const first = (Number.parseInt(octets[0] ?? "", 16) & 0xfc) | 0x02;
  return [first.toString(16).padStart(2, "0"), ...octets.slice(1)].join(":");
}

function sha256(text: string): string {
  return new Bun.CryptoHasher("sha256").update(text).digest("hex");
}
