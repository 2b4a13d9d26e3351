/**
 * Gives every set of labels that a pod has one number, and takes numbers back that nobody uses (P§1.13): for the cluster's controller, and
 * for agents where there is none. Nothing waits for it: a missing or a doubled identity is a finding, not a dropped packet. Items of work are
 * `create`, `revive <number>`, `retire <number>` and `delete <number>`.
 *
 * Unlike addresses, an identity is taken away without asking for pods: a pod that comes meanwhile gets the same number again.
 */
import type { AgentLog } from "../resident/agent-log.ts";
import { Observations } from "../resident/observations.ts";
import type { Clock } from "../system/waiting.ts";
import { IdentityIndex, type IdentityStore, type StoredIdentity } from "./identity-object.ts";
import { ensureIdentity } from "./identity-writer.ts";
import { isTooLong, type LabelSet } from "./labels.ts";

const UNUSED_MS = 15 * 60_000;
const RETIRED_MS = 24 * 60 * 60_000;
/** For so long an identity that was made counts as there, although the watch does not show it. */
const WATCH_LAG_MS = 10_000;
/** As Cilium's operator. */
const MOST_CHANGES = 250;
const MINUTE_MS = 60_000;
/** Requests for identities under way at once. */
const WRITERS = 4;

export interface IdentityCounts {
  readonly active: number;
  readonly retired: number;
  /** Sets of labels that pods have, and that have no number yet. */
  readonly missing: number;
}

/** What is known at one moment. */
export interface IdentityFacts {
  /** Sets of labels that pods have, by their keys. */
  readonly used: ReadonlyMap<string, LabelSet>;
  readonly identities: readonly StoredIdentity[];
  /** Since when all of this has been followed without a gap, in milliseconds of the clock. */
  readonly followedSince: number;
}

type IdentityChange = "created" | "renumbered" | "revived" | "retired" | "deleted";

export interface IdentityKeeperParts {
  readonly store: IdentityStore;
  /** @throws Error when it is not known now what is used, or what there is */
  readonly facts: () => IdentityFacts;
  /** Says whether one that no pod has, as far as is known here, is this process's to collect; absent: all are. */
  readonly collects?: (identity: StoredIdentity) => boolean;
  readonly clock: Pick<Clock, "now" | "date">;
  readonly log: Pick<AgentLog, "info" | "error">;
  readonly onChange: (change: IdentityChange) => void;
}

/** One look: what pods have, and what there is. */
interface Judgement extends IdentityFacts {
  readonly index: IdentityIndex;
  readonly missing: readonly LabelSet[];
}

export class IdentityKeeper {
  readonly #parts: IdentityKeeperParts;
  readonly #unused: Observations;
  /** Numbers of the sets that pods have, so that one which is deleted by hand comes again under its number. */
  #numbers = new Map<string, number>();
  /** When identities were made that the watch may not show yet, by their keys. */
  readonly #made = new Map<string, number>();
  readonly #crowded = new Map<string, string>();
  /** When identities were retired and deleted, within the last minute. */
  #changes: number[] = [];
  #findings: readonly string[] = [];
  #tooLong: readonly LabelSet[] = [];
  #counts: IdentityCounts = { active: 0, retired: 0, missing: 0 };

  constructor(parts: IdentityKeeperParts) {
    this.#parts = parts;
    this.#unused = new Observations(parts.clock);
  }

  /** Says what the last look has found: sets that get no number, and sets that have two. */
  get findings(): readonly string[] {
    return this.#findings;
  }

  /** Lists the sets of the last look that are too long for an identity. */
  get tooLong(): readonly LabelSet[] {
    return this.#tooLong;
  }

  get counts(): IdentityCounts {
    return this.#counts;
  }

  /** Observes, and returns what is due. It writes nothing. @throws as `facts` */
  look(): readonly string[] {
    const judgement = this.#judge();
    const { used, index, missing, identities, followedSince } = judgement;
    this.#unused.forgetBefore(followedSince);
    this.#unused.look(identities.filter((identity) => !isUsed(identity, judgement)).map(observationOf));
    this.#note(judgement);
    const revived = [...used.keys()].flatMap((key) => index.of(key) ?? []).filter(({ state }) => state === "retired");
    const collected = identities.flatMap((identity) => this.#collection(identity, judgement) ?? []);
    return [
      ...(missing.length > 0 ? ["create"] : []),
      ...revived.map(({ number }) => `revive ${number}`),
      ...collected.slice(0, this.#changesLeft()),
    ];
  }

  /** Judges the item again, and does what is still due. @throws what shall be tried again */
  async work(item: string, signal: AbortSignal): Promise<void> {
    const judgement = this.#judge();
    if (item === "create") return this.#createAll(judgement, signal);
    const [kind, number] = item.split(" ");
    const identity = judgement.index.get(Number(number));
    if (identity === undefined) return;
    if (kind === "revive") {
      if (identity.state === "retired" && isUsed(identity, judgement)) await this.#setState(identity, undefined, "revived");
      return;
    }
    if (this.#collection(identity, judgement) !== item || this.#changesLeft() <= 0) return;
    const { clock } = this.#parts;
    this.#changes.push(clock.now());
    if (kind === "retire") await this.#setState(identity, clock.date().toISOString(), "retired");
    else await this.#delete(identity);
  }

  #judge(): Judgement {
    const facts = this.#parts.facts();
    const index = new IdentityIndex(facts.identities);
    const isMissing = (set: LabelSet) => index.of(set.key) === undefined && !isTooLong(set) && !this.#isJustMade(set);
    return { ...facts, index, missing: [...facts.used.values()].filter(isMissing) };
  }

  #isJustMade({ key }: LabelSet): boolean {
    const madeAt = this.#made.get(key);
    return madeAt !== undefined && this.#parts.clock.now() - madeAt < WATCH_LAG_MS;
  }

  /** Returns how an identity is to be taken away now; `undefined`: it is not. */
  #collection(identity: StoredIdentity, judgement: Judgement): string | undefined {
    const { clock, collects } = this.#parts;
    if (isUsed(identity, judgement) || !this.#unused.isConfirmed(observationOf(identity), UNUSED_MS)) return undefined;
    if (collects?.(identity) === false) return undefined;
    if (identity.state === "active") return `retire ${identity.number}`;
    const retiredAt = Date.parse(identity.retiredAt);
    return clock.date().getTime() - retiredAt >= RETIRED_MS ? `delete ${identity.number}` : undefined;
  }

  #changesLeft(): number {
    const now = this.#parts.clock.now();
    this.#changes = this.#changes.filter((at) => now - at < MINUTE_MS);
    return MOST_CHANGES - this.#changes.length;
  }

  async #createAll(judgement: Judgement, signal: AbortSignal): Promise<void> {
    const { log } = this.#parts;
    const failures: unknown[] = [];
    const left = judgement.missing.values();
    let created = 0;
    const writeSome = async () => {
      for (const set of left) {
        if (signal.aborted) return;
        try {
          if (await this.#create(set, judgement)) created++;
        } catch (error) {
          failures.push(error);
        }
      }
    };
    await Promise.all(Array.from({ length: WRITERS }, writeSome));
    if (created > 0) log.info(`created ${created} ${created === 1 ? "identity" : "identities"}`);
    if (failures.length > 0) throw failures[0];
  }

  /** @returns whether it was this process that created it */
  async #create(set: LabelSet, { index, identities }: Judgement): Promise<boolean> {
    const { store, log, clock, onChange } = this.#parts;
    const before = this.#numbers.get(set.key);
    const written = await ensureIdentity(store, set, index, before);
    if (written === undefined) {
      const message = `identity-crowded: each number of ${set.key} is another's; there are ${identities.length} identities`;
      this.#crowded.set(set.key, message);
      return false;
    }
    this.#crowded.delete(set.key);
    this.#made.set(set.key, clock.now());
    if (before !== undefined && before !== written.number) {
      onChange("renumbered");
      log.error(`identity ${before} was deleted while pods used it, and is another's now: ${set.key} is identity ${written.number}`);
    }
    if (written.isNew) onChange("created");
    return written.isNew;
  }

  /** One that was changed or deleted meanwhile is for the next look. */
  async #setState(identity: StoredIdentity, retiredAt: string | undefined, change: "revived" | "retired"): Promise<void> {
    const { store, onChange } = this.#parts;
    if (await store.setState(identity, retiredAt)) onChange(change);
  }

  async #delete(identity: StoredIdentity): Promise<void> {
    const { store, log, onChange } = this.#parts;
    if (!(await store.delete(identity))) return;
    onChange("deleted");
    log.info(`deleted identity ${identity.number}, which no pod has used for a day: ${identity.key}`);
  }

  /** Remembers what the next looks need, and says what is wrong. */
  #note({ used, index, missing, identities }: Judgement): void {
    const numbers = [...used.keys()].flatMap((key): [string, number][] => {
      const number = index.of(key)?.number ?? this.#numbers.get(key);
      return number === undefined ? [] : [[key, number]];
    });
    this.#numbers = new Map(numbers);
    for (const key of this.#made.keys()) if (index.of(key) !== undefined || !used.has(key)) this.#made.delete(key);
    for (const key of this.#crowded.keys()) if (index.of(key) !== undefined || !used.has(key)) this.#crowded.delete(key);
    const retired = identities.filter(({ state }) => state === "retired").length;
    this.#counts = { active: identities.length - retired, retired, missing: missing.length };
    this.#findings = [
      ...this.#crowded.values(),
      ...[...index.duplicates].map(([number, other]) => `identities ${other} and ${number} stand for the same labels; ${other} is used`),
    ];
    this.#tooLong = [...used.values()].filter(isTooLong);
  }
}

/** Tells whether it is the one of its set, and a pod has that set. */
function isUsed(identity: StoredIdentity, { used, index }: Judgement): boolean {
  return used.has(identity.key) && index.of(identity.key) === identity;
}

/** Every write to the object makes it another observation. */
function observationOf({ number, uid, resourceVersion }: StoredIdentity): string {
  return `${number} ${uid} ${resourceVersion}`;
}
