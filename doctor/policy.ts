/**
 * Judges whether a node enforces network policy as its administrator believes: what weakens it, what is not judged, what has no effect. The
 * rules are pure; `policy-facts.ts` looks.
 */
import { count, enumerate } from "./problem.ts";

/** The node's end of an attachment. */
export interface HostEnd {
  readonly name: string;
  /** Name of the bridge of which it is a port; `undefined`: of none, as Tortie leaves it. */
  readonly bridge: string | undefined;
}

export interface PolicyFacts {
  /** Whether the agent enforces policy. Absent where none answers. */
  readonly isEnforced?: boolean;
  /** Whether an agent answers. */
  readonly isServed: boolean;
  readonly hostEnds: readonly HostEnd[];
  /** Host ends that the table judges, or passes on purpose, in both directions; `undefined`: there is no such table. */
  readonly known: ReadonlySet<string> | undefined;
  /** What the table has otherwise than the agent wants, one phrase each. */
  readonly differences: readonly string[];
  readonly hasFelix: boolean;
  /** Whether kube-proxy serves Services by IPVS. */
  readonly hasIpvs: boolean;
  /** Objects of other kinds, which are not read: "NetworkPolicy.crd.projectcalico.org". */
  readonly unread: readonly { readonly kind: string; readonly atLeast: number }[];
  /** The agent's sentence about NetworkPolicy objects that nobody enforces; `undefined`: there are none. */
  readonly unenforced: string | undefined;
}

/** The facts that come from an agent alone, on a node without one. */
export const UNSAID: Pick<PolicyFacts, "differences" | "unread" | "unenforced"> = { differences: [], unread: [], unenforced: undefined };

/** What is wrong, and what to do. */
export interface PolicyFinding {
  readonly kind: PolicyProblem;
  readonly message: string;
  readonly next: string;
}

const NEXT = {
  "policy-table-missing":
    "look who deleted it (nft monitor); an agent makes it again within a minute, or at once with: tortiectl repair node --yes",
  "policy-table-edited":
    "look who changed it (nft monitor); the agent mends it within a minute, or at once with: tortiectl repair node --yes",
  "policy-table-left": "start the agent with --policy auto, or remove the table with: tortiectl policy off",
  "policy-endpoint-unknown":
    "see what the agent waits for with: tortiectl node status; without an agent, open the node with: tortiectl policy off",
  "policy-felix": "take Felix away (docs/how-to/migrate-from-calico.md), or give the agent --policy off",
  "policy-ipvs": "run kube-proxy in mode nftables or iptables, and delete kube-ipvs0",
  "policy-bridge": "take it out of the bridge with: ip link set NAME nomaster",
  "policy-unread": "write what they say as NetworkPolicy objects, or run the program that reads them",
  "policy-unenforced": "give the agent --policy auto, or run another program that enforces them",
} as const;
export type PolicyProblem = keyof typeof NEXT;

/** Returns what is wrong on the node, the gravest first. */
export function policyFindings(facts: PolicyFacts): readonly PolicyFinding[] {
  return [...ofTable(facts), ...ofEndpoints(facts), ...ofNeighbours(facts), ...ofObjects(facts)];
}

function ofTable({ isEnforced, known, differences }: PolicyFacts): readonly PolicyFinding[] {
  if (isEnforced === true && known === undefined) {
    const message = "policy is on, but the kernel has no table inet tortie-policy: every pod of this node is open";
    return [finding("policy-table-missing", message)];
  }
  if (isEnforced !== true && known !== undefined) {
    const state = isEnforced === false ? "policy is off" : "no agent answers";
    const message = `${state}, but the kernel has a table inet tortie-policy: its pods stay as it says, and new ones are closed`;
    return [finding("policy-table-left", message)];
  }
  if (differences.length === 0) return [];
  return [finding("policy-table-edited", `table inet tortie-policy is not as the agent made it: ${enumerate(differences)}`)];
}

function ofEndpoints({ hostEnds, known, isServed }: PolicyFacts): readonly PolicyFinding[] {
  if (known === undefined) return [];
  const unknown = hostEnds.filter(({ name }) => !known.has(name)).map(({ name }) => name);
  if (unknown.length === 0) return [];
  const cause = isServed ? "" : ", and no agent is there to speak for them";
  const message = `${count(unknown.length, "pod is", "pods are")} closed because nobody has said what they may do (${enumerate(unknown)})${cause}`;
  return [finding("policy-endpoint-unknown", message)];
}

function ofNeighbours({ known, hasFelix, hasIpvs, hostEnds }: PolicyFacts): readonly PolicyFinding[] {
  if (known === undefined) return [];
  const bridged = hostEnds.flatMap(({ name, bridge }) => (bridge === undefined ? [] : [`${name} of ${bridge}`]));
  return [
    ...(hasFelix ? [finding("policy-felix", "Felix enforces policy on this node too: each drops what the other allows")] : []),
    ...(hasIpvs
      ? [finding("policy-ipvs", "kube-proxy uses IPVS (kube-ipvs0): connections to Services are not judged by their backends")]
      : []),
    ...(bridged.length > 0
      ? [finding("policy-bridge", `what passes from port to port of a bridge is not judged, and these are ports: ${enumerate(bridged)}`)]
      : []),
  ];
}

function ofObjects({ isEnforced, unread, unenforced, hasFelix }: PolicyFacts): readonly PolicyFinding[] {
  const kinds = unread.map(({ kind, atLeast }) => `${kind} (at least ${atLeast})`);
  return [
    ...(kinds.length > 0 && !hasFelix ? [finding("policy-unread", `objects exist that nobody enforces: ${enumerate(kinds)}`)] : []),
    ...(unenforced !== undefined && isEnforced !== true && !hasFelix ? [finding("policy-unenforced", unenforced)] : []),
  ];
}

function finding(kind: PolicyProblem, message: string): PolicyFinding {
  return { kind, message, next: NEXT[kind] };
}
