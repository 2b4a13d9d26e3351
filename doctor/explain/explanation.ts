/**
 * Defines what `tortiectl explain` answers: who has something, since when, why this one, what the kernel and the store hold for it, what
 * happened to it, what differs from what should be, and what to do next. The page, `kubectl tortie` and the archive show the same.
 */
import type { HistoryEntry } from "../../handover/history.ts";
import type { CheckResult } from "../report.ts";

export type { HistoryEntry } from "../../handover/history.ts";

/** Is what can be asked about. */
export type SubjectKind = "pod" | "ip" | "interface" | "container" | "word";

export interface Subject {
  readonly kind: SubjectKind;
  /** Is as given: "default/web", "10.244.9.3", "cali0123456789a", a container id or how it begins, "addresses-exhausted". */
  readonly name: string;
  /** Is the moment that is asked about, RFC 3339; absent: now. */
  readonly at?: string;
}

/** `present`: attached now (or held, or free: of an address). `past`: it was. `absent`: nothing is known of it. `word`: an error's word. */
export type Standing = "present" | "past" | "absent" | "word";

export interface Explanation {
  /** RFC 3339. */
  readonly time: string;
  readonly host: string;
  readonly version: string;
  readonly subject: Subject;
  readonly standing: Standing;
  /** Says in one sentence who has it, or what is wrong. */
  readonly summary: string;
  /** Lists what is attached now under this name; more than one only where a name is not unique or something is used twice. */
  readonly attachments: readonly ExplainedAttachment[];
  /** Lists each address that the subject is, or has, as the store says. */
  readonly addresses: readonly ExplainedAddress[];
  /** Lists what happened, newest first, also to attachments that are gone. */
  readonly history: readonly HistoryEntry[];
  /** Lists what was compared; everything that is not `ok` has its next step. */
  readonly results: readonly CheckResult[];
  readonly word?: ExplainedWord;
  /** Says what to do next; "nothing" where all is well. */
  readonly next: string;
}

export interface ExplainedAttachment {
  readonly network: string;
  readonly containerId: string;
  readonly ifname: string;
  /** `<namespace>/<pod>`; absent for a plain container. */
  readonly pod?: string;
  /** Is the number that the agent gave; absent where none knows the attachment. */
  readonly endpoint?: number;
  /** Is the agent's word for how far it is: "ready", "not-ready", "restoring", …; "recorded" where only a record says it. */
  readonly state: string;
  /** RFC 3339: the ADD's end. */
  readonly since?: string;
  readonly addresses: readonly string[];
  readonly hostEnd?: ExplainedEnd;
  readonly podEnd?: ExplainedEnd;
  /** Is the path of the sandbox; absent where nobody knows it. */
  readonly netns?: string;
  /** Lists routes of the host and of the pod, as `ip route` writes them. */
  readonly routes: readonly ExplainedRoute[];
  readonly sysctls: readonly ExplainedSysctl[];
  /** Lists what filters or changes its packets here: the source check, masquerading, the policy's element. */
  readonly rules: readonly ExplainedRule[];
  /** Has the annotations of the pod that decide about its network. */
  readonly annotations: Readonly<Record<string, string>>;
  readonly mtu?: ExplainedMtu;
  /** Lists what plugins behind Tortie have made for it: portmap's chains, bandwidth's queues. */
  readonly chained: readonly ExplainedRule[];
}

export interface ExplainedEnd {
  readonly name: string;
  readonly index?: number;
  readonly mac?: string;
  readonly mtu?: number;
  readonly state: "up" | "down" | "missing" | "unknown";
}

export interface ExplainedRoute {
  readonly side: "host" | "pod";
  readonly wanted: string;
  /** Is what is there instead, or "missing"; absent: it is as wanted, or nobody could look. */
  readonly found?: string;
}

export interface ExplainedSysctl {
  /** Is its path below /proc/sys. */
  readonly path: string;
  readonly wanted: string;
  readonly found: string;
}

export interface ExplainedRule {
  /** Says who made it: "tortie", "policy", "portmap", "bandwidth". */
  readonly by: string;
  /** Says where it is: "table inet tortie", "chain CNI-DN-0123", "link bwp0123". */
  readonly place: string;
  readonly isPresent: boolean;
  readonly message: string;
}

export interface ExplainedMtu {
  readonly hostEnd?: number;
  readonly podEnd?: number;
  /** Is the smallest one of the links by which the host reaches others. */
  readonly uplink?: { readonly name: string; readonly mtu: number };
}

/** `used`: granted to somebody. `cooling`: given back a moment ago. `reserved`: by an IPReservation. `outside`: of no pool and no block. */
export type AddressStanding = "used" | "free" | "cooling" | "reserved" | "outside" | "unknown";

export interface ExplainedAddress {
  readonly address: string;
  readonly standing: AddressStanding;
  readonly handle?: string;
  readonly node?: string;
  readonly pod?: string;
  /** RFC 3339, of the grant. */
  readonly since?: string;
  /** RFC 3339: when a cooling address is free again. */
  readonly freeAgain?: string;
  readonly block?: string;
  /** Is the node that the block belongs to; another than `node` where the address is borrowed. */
  readonly blockOwner?: string;
  readonly pool?: string;
  /** Says why this pool and this block were taken. */
  readonly why?: string;
}

/** Is a row of docs/reference/errors.md. */
export interface ExplainedWord {
  readonly word: string;
  /** Is the number that CNI knows. */
  readonly code: number;
  readonly next: string;
}
