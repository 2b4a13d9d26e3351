/**
 * Names of workload endpoints (C§7.2): segments joined by "-", in which each "-" of the segment itself is doubled. No segment begins
 * or ends with "-", or names could not be taken apart again.
 */
import { TortieError } from "../errors/errors.ts";

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
 * The part of the name up to the first unknown identifier, ending with "-"; the whole name when all are known. Names of other
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

/** Whether a full name has every identifier that is known. */
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
