/**
 * Defines what can be wrong with the addresses in a datastore: the closed list of kinds, and one finding (I§5.5).
 * Words for people are made here, so that every surface says the same.
 */
import type { Operation } from "../ipam-plugin/allocator/operation.ts";
import type { AffinityKey } from "../lib/datastore/datastore.ts";
import type { EndpointKey } from "../lib/workload/endpoint.ts";

/** `problem`: the data contradict each other. `note`: worth knowing, and it may settle by itself. */
export type Severity = "problem" | "note";

interface Kind {
  /** What `--repair` does about it; absent: it must be decided by a person. */
  readonly repair?: string;
  /** Says the next step of a person. */
  readonly next: string;
}

const REPAIR = "mend it with: tortiectl ipam check --repair";

const KINDS = {
  "block-cidr": { next: "restore the block from a backup: its CIDR is what its addresses are counted from" },
  "block-length": { repair: "adds the missing ordinals as free, cuts free ones that are too many", next: REPAIR },
  "allocation-without-attribute": { repair: "keeps the addresses allocated, to nobody until their endpoint is known", next: REPAIR },
  "attribute-unreferenced": { repair: "drops the attributes", next: REPAIR },
  "release-in-future": { repair: "lets the cooldown begin now", next: `compare the clocks of the nodes, then ${REPAIR}` },
  "free-out-of-range": { repair: "drops the entries", next: REPAIR },
  "free-duplicate": { repair: "keeps the first entry of each", next: REPAIR },
  "free-allocated": { repair: "takes them out of the list: the allocation wins", next: REPAIR },
  "free-lost": { repair: "appends them to the list", next: REPAIR },
  "block-outside-pools": {
    repair: "removes the block, when it is empty",
    next: "make a pool that holds the block, or release its addresses and repair",
  },
  "block-size": {
    repair: "removes the block, when it is empty",
    next: "release the addresses of the block and repair, or give the pool back its block size",
  },
  "pool-block-size": {
    next: "give the pool back its blockSize; or move its pods to a new pool, then remove the empty blocks with: tortiectl ipam check --repair",
  },
  "blocks-overlap": { repair: "removes the one that is empty", next: "release the addresses of one of the two blocks, then repair" },
  "block-abandoned": { repair: "removes the block", next: REPAIR },
  "affinity-without-block": { repair: "removes the affinity", next: REPAIR },
  "affinity-unfinished": {
    repair: "finishes the claim, or takes it back when there is no block",
    next: "nothing: the owner's next assignment finishes it",
  },
  "affinity-missing": { repair: "writes the affinity that the block's owner lacks", next: REPAIR },
  "affinity-of-another": { repair: "removes the affinity: the block decides", next: REPAIR },
  "affinity-double": { repair: "removes those that the block does not name", next: REPAIR },
  "affinity-unlabelled": { repair: "writes the labels", next: REPAIR },
  "handle-orphan": { repair: "removes the handle", next: REPAIR },
  "handle-missing": { repair: "makes the handle from the blocks", next: REPAIR },
  "handle-count-high": { repair: "lowers the count to what the block records", next: REPAIR },
  "handle-count-low": { repair: "raises the count to what the block records", next: REPAIR },
  "address-unused": { repair: "releases the address", next: `make sure that the workload is gone, then ${REPAIR}` },
  "addresses-unjudged": { next: "let the runtime call GC, which knows the living attachments; or judge them all the same with --strict" },
  "address-without-handle": { repair: "gives it the handle of the endpoint that uses it", next: REPAIR },
  "address-not-allocated": { repair: "allocates it to the endpoint that uses it", next: REPAIR },
  "address-outside-pools": { next: "make a pool that holds the address, or add the workload again" },
  "address-of-another": { next: "add one of the two workloads again; look who holds the address with: tortiectl ipam show --ip" },
  "address-used-twice": { next: "add all but one of these workloads again" },
} as const satisfies Readonly<Record<string, Kind>>;

export type ProblemKind = keyof typeof KINDS;

/** Says what the problem is about, as far as the repair needs it. */
export type Subject =
  | { readonly type: "block"; readonly cidr: string }
  | { readonly type: "affinity"; readonly key: AffinityKey }
  /** `blocks`: every block that the handle names, or that names the handle. */
  | { readonly type: "handle"; readonly id: string; readonly blocks: readonly string[] }
  | {
      readonly type: "allocation";
      readonly address: string;
      readonly cidr: string;
      readonly handle: string | undefined;
      readonly sequenceNumber: bigint;
    }
  | { readonly type: "endpoint"; readonly key: EndpointKey; readonly address: string }
  | { readonly type: "address"; readonly address: string }
  | { readonly type: "place" };

export interface Problem {
  readonly kind: ProblemKind;
  readonly severity: Severity;
  /** The same in two snapshots for the same problem of the same object. */
  readonly id: string;
  /** Changes with every write to the object: a problem whose evidence changes may be an operation under way. */
  readonly evidence: string;
  /** The object in words: "block 10.40.0.8/29". */
  readonly object: string;
  readonly message: string;
  /** Every address concerned, canonical text; the message may name only the first. */
  readonly addresses: readonly string[];
  readonly isRepairable: boolean;
  readonly subject: Subject;
}

export interface ProblemFacts {
  readonly object: string;
  readonly message: string;
  readonly subject: Subject;
  readonly addresses?: readonly string[];
  readonly evidence?: string;
  readonly severity?: Severity;
  /** false: of a kind that can be mended, but not in this case. */
  readonly isRepairable?: boolean;
}

/** Makes a finding; without evidence the message is what must stay the same. */
export function problem(kind: ProblemKind, facts: ProblemFacts): Problem {
  return {
    kind,
    severity: facts.severity ?? "problem",
    id: `${kind} ${facts.object}`,
    evidence: facts.evidence ?? facts.message,
    object: facts.object,
    message: facts.message,
    addresses: facts.addresses ?? [],
    isRepairable: "repair" in KINDS[kind] && (facts.isRepairable ?? true),
    subject: facts.subject,
  };
}

/** Makes a finding about a whole block. */
export function blockProblem(kind: ProblemKind, cidr: string, message: string, more: Partial<ProblemFacts> = {}): Problem {
  return problem(kind, { object: `block ${cidr}`, message, subject: { type: "block", cidr }, ...more });
}

/** The next step of a person. */
export function nextStep({ kind, isRepairable }: Problem): string {
  const { next } = KINDS[kind];
  return isRepairable || next !== REPAIR ? next : "decide by hand: the automatic repair would have to take addresses away";
}

/** Says what a repair does. */
export function repairText(kind: ProblemKind): string {
  const entry: Kind = KINDS[kind];
  return entry.repair ?? "";
}

const MOST_NAMED = 6;

/** Writes "10.0.0.1, 10.0.0.2 and 7 more". */
export function enumerate(items: readonly string[]): string {
  const named = items.slice(0, MOST_NAMED).join(", ");
  return items.length > MOST_NAMED ? `${named} and ${items.length - MOST_NAMED} more` : named;
}

/** Writes "1 address", "2 addresses". */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}

/**
 * `mended`: the repair was written. `gone`: another process or another repair has solved the problem already.
 * `refused`: mending it would take something away that is in use, or the store went on changing.
 */
export type RepairOutcome = { readonly outcome: "mended" | "gone" } | { readonly outcome: "refused"; readonly reason: string };

export const MENDED: RepairOutcome = { outcome: "mended" };
export const GONE: RepairOutcome = { outcome: "gone" };
export function refused(reason: string): RepairOutcome {
  return { outcome: "refused", reason };
}

/** Has what each repair works with. */
export interface Repair {
  /** Serves this try alone: the objects are read again for the next one. */
  readonly operation: Operation;
  readonly problem: Problem;
  readonly nowMs: number;
}
