/**
 * Gives every set of labels that a pod has one number, and takes numbers back that nobody uses (P§1.13). Nothing waits for it: a missing or
 * a doubled identity is a finding, not a dropped packet. Items are `create`, `revive <number>`, `retire <number>` and `delete <number>`.
 *
 * Unlike addresses, an identity is taken away without asking the server for pods: a pod that comes meanwhile gets the same number again.
 */
import { IDENTITY_PATH, type IdentityIndex, type StoredIdentity, statePatch } from "../../lib/identity/identity-object.ts";
import { isTooLong, type LabelSet } from "../../lib/identity/labels.ts";
import { Observations } from "../../lib/resident/observations.ts";
import type { IdentityView } from "../view/identity-view.ts";
import { answerUnless, type Duty, type DutyContext } from "./duty.ts";
import { IdentityWriter } from "./identity-writer.ts";

/** Somebody looks at `tortiectl` while the pod starts. */
const MOST_MS = 2_000;
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

/** One look: what pods have, and what there is. */
interface Judgement {
  readonly used: ReadonlyMap<string, LabelSet>;
  readonly index: IdentityIndex;
  readonly missing: readonly LabelSet[];
}

export class Identities implements Duty {
  readonly name = "identities";
  readonly mostMs = MOST_MS;
  readonly #context: DutyContext;
  readonly #identities: IdentityView;
  readonly #writer: IdentityWriter;
  readonly #unused: Observations;
  /** Numbers of the sets that pods have, so that one which is deleted by hand comes again under its number. */
  #numbers = new Map<string, number>();
  /** When identities were made that the watch may not show yet, by their keys. */
  readonly #made = new Map<string, number>();
  readonly #crowded = new Map<string, string>();
  /** When identities were retired and deleted, within the last minute. */
  #changes: number[] = [];
  #hasJudged = false;
  #findings: readonly string[] = [];
  #counts: IdentityCounts = { active: 0, retired: 0, missing: 0 };

  constructor(context: DutyContext, identities: IdentityView) {
    this.#context = context;
    this.#identities = identities;
    this.#writer = new IdentityWriter(context.client, context.clock);
    this.#unused = new Observations(context.clock);
  }

  /** Says what the last look has found: sets that get no number, and sets that have two. */
  get findings(): readonly string[] {
    return this.#findings;
  }

  get counts(): IdentityCounts {
    return this.#counts;
  }

  async look(signal: AbortSignal): Promise<readonly string[]> {
    await this.#identities.untilSynced(signal);
    // At the beginning of a term a watch may not have begun yet.
    if (!this.#hasJudged && (this.#context.view.gap ?? this.#identities.gap) !== undefined) return [];
    const judgement = this.#judge();
    const { used, index, missing } = judgement;
    const { identities } = this.#identities;
    this.#unused.forgetBefore(Math.max(this.#context.view.followedSince, this.#identities.followedSince));
    this.#unused.look(identities.filter((identity) => !isUsed(identity, judgement)).map(observationOf));
    this.#note(judgement, identities);
    const revived = [...used.keys()].flatMap((key) => index.of(key) ?? []).filter(({ state }) => state === "retired");
    const collected = identities.flatMap((identity) => this.#collection(identity, judgement) ?? []);
    return [
      ...(missing.length > 0 ? ["create"] : []),
      ...revived.map(({ number }) => `revive ${number}`),
      ...collected.slice(0, this.#changesLeft()),
    ];
  }

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
    this.#changes.push(this.#context.clock.now());
    if (kind === "retire") await this.#setState(identity, this.#context.clock.date().toISOString(), "retired");
    else await this.#delete(identity);
  }

  #judge(): Judgement {
    const { view } = this.#context;
    view.mustBeComplete();
    const { gap } = this.#identities;
    if (gap !== undefined) throw new Error(`no identity is judged: ${gap}`);
    this.#hasJudged = true;
    const used = new Map<string, LabelSet>();
    for (const pod of view.pods) {
      const set = this.#identities.setOf(pod);
      if (set !== undefined && !used.has(set.key)) used.set(set.key, set);
    }
    const index = this.#identities.index();
    const missing = [...used.values()].filter((set) => index.of(set.key) === undefined && !isTooLong(set) && !this.#isJustMade(set));
    return { used, index, missing };
  }

  #isJustMade({ key }: LabelSet): boolean {
    const madeAt = this.#made.get(key);
    return madeAt !== undefined && this.#context.clock.now() - madeAt < WATCH_LAG_MS;
  }

  /** Returns how an identity is to be taken away now; `undefined`: it is not. */
  #collection(identity: StoredIdentity, judgement: Judgement): string | undefined {
    if (isUsed(identity, judgement) || !this.#unused.isConfirmed(observationOf(identity), UNUSED_MS)) return undefined;
    if (identity.state === "active") return `retire ${identity.number}`;
    const retiredAt = Date.parse(identity.retiredAt);
    return this.#context.clock.date().getTime() - retiredAt >= RETIRED_MS ? `delete ${identity.number}` : undefined;
  }

  #changesLeft(): number {
    const now = this.#context.clock.now();
    this.#changes = this.#changes.filter((at) => now - at < MINUTE_MS);
    return MOST_CHANGES - this.#changes.length;
  }

  async #createAll({ missing, index }: Judgement, signal: AbortSignal): Promise<void> {
    const { log } = this.#context;
    const failures: unknown[] = [];
    const left = missing.values();
    let created = 0;
    const writeSome = async () => {
      for (const set of left) {
        if (signal.aborted) return;
        try {
          if (await this.#create(set, index)) created++;
        } catch (error) {
          failures.push(error);
        }
      }
    };
    await Promise.all(Array.from({ length: WRITERS }, writeSome));
    if (created > 0) log.info(`created ${created} ${created === 1 ? "identity" : "identities"}`);
    if (failures.length > 0) throw failures[0];
  }

  /** @returns whether it was this controller that created it */
  async #create(set: LabelSet, index: IdentityIndex): Promise<boolean> {
    const { log, clock, onIdentity } = this.#context;
    const before = this.#numbers.get(set.key);
    const written = await this.#writer.ensure(set, index, before);
    if (written === undefined) {
      const message = `identity-crowded: each number of ${set.key} is another's; there are ${this.#identities.identities.length} identities`;
      this.#crowded.set(set.key, message);
      return false;
    }
    this.#crowded.delete(set.key);
    this.#made.set(set.key, clock.now());
    if (before !== undefined && before !== written.number) {
      onIdentity("renumbered");
      log.error(`identity ${before} was deleted while pods used it, and is another's now: ${set.key} is identity ${written.number}`);
    }
    if (written.isNew) onIdentity("created");
    return written.isNew;
  }

  async #setState(identity: StoredIdentity, retiredAt: string | undefined, change: "revived" | "retired"): Promise<void> {
    const { client, onIdentity } = this.#context;
    const body = JSON.stringify(statePatch(identity, retiredAt));
    const path = `${IDENTITY_PATH}/${identity.number}`;
    // One that was changed or deleted meanwhile is for the next look.
    const done = await answerUnless([404, 409], client, { method: "PATCH", path, body, contentType: "application/merge-patch+json" });
    if (done !== undefined) onIdentity(change);
  }

  async #delete({ number, uid, resourceVersion, key }: StoredIdentity): Promise<void> {
    const { client, log, onIdentity } = this.#context;
    const body = JSON.stringify({ apiVersion: "v1", kind: "DeleteOptions", preconditions: { uid, resourceVersion } });
    const done = await answerUnless([404, 409], client, { method: "DELETE", path: `${IDENTITY_PATH}/${number}`, body });
    if (done === undefined) return;
    onIdentity("deleted");
    log.info(`deleted identity ${number}, which no pod has used for a day: ${key}`);
  }

  /** Remembers what the next looks need, and says what is wrong. */
  #note({ used, index, missing }: Judgement, identities: readonly StoredIdentity[]): void {
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
      ...this.#tooLong([...used.values()].filter(isTooLong)),
    ];
  }

  #tooLong(sets: readonly LabelSet[]): readonly string[] {
    if (sets.length === 0) return [];
    const keys = new Set(sets.map(({ key }) => key));
    return this.#context.view.pods
      .filter((pod) => keys.has(this.#identities.setOf(pod)?.key ?? ""))
      .map(({ namespace, name }) => `the labels of pod ${namespace}/${name} are too long for an identity`);
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
