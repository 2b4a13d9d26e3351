/**
 * Keeps the identities of the cluster: by the pods and the objects that the controller watches, in TortieIdentity objects. What becomes of
 * them is decided in lib/identity/identity-keeper.ts.
 */
import { type IdentityCounts, type IdentityFacts, IdentityKeeper } from "../../lib/identity/identity-keeper.ts";
import { decodeIdentity, IDENTITY_PATH, type IdentityStore, newIdentity, statePatch } from "../../lib/identity/identity-object.ts";
import type { LabelSet } from "../../lib/identity/labels.ts";
import { parseObject } from "../../lib/json/decode.ts";
import type { IdentityView } from "../view/identity-view.ts";
import { answerUnless, type Duty, type DutyContext } from "./duty.ts";

/** Somebody looks at `tortiectl` while the pod starts. */
const MOST_MS = 2_000;
const CREATED_BY = "tortie-controller";

export class Identities implements Duty {
  readonly name = "identities";
  readonly mostMs = MOST_MS;
  readonly #context: DutyContext;
  readonly #identities: IdentityView;
  readonly #keeper: IdentityKeeper;
  #hasJudged = false;

  constructor(context: DutyContext, identities: IdentityView) {
    const { clock, log, onIdentity } = context;
    this.#context = context;
    this.#identities = identities;
    this.#keeper = new IdentityKeeper({ store: objectsOf(context), facts: () => this.#facts(), clock, log, onChange: onIdentity });
  }

  /** Says what the last look has found: sets that get no number, and sets that have two. */
  get findings(): readonly string[] {
    return [...this.#keeper.findings, ...this.#tooLong()];
  }

  get counts(): IdentityCounts {
    return this.#keeper.counts;
  }

  async look(signal: AbortSignal): Promise<readonly string[]> {
    await this.#identities.untilSynced(signal);
    // At the beginning of a term a watch may not have begun yet.
    if (!this.#hasJudged && (this.#context.view.gap ?? this.#identities.gap) !== undefined) return [];
    return this.#keeper.look();
  }

  work(item: string, signal: AbortSignal): Promise<void> {
    return this.#keeper.work(item, signal);
  }

  #facts(): IdentityFacts {
    const { view } = this.#context;
    view.mustBeComplete();
    const { gap, identities, followedSince } = this.#identities;
    if (gap !== undefined) throw new Error(`no identity is judged: ${gap}`);
    this.#hasJudged = true;
    const used = new Map<string, LabelSet>();
    for (const pod of view.pods) {
      const set = this.#identities.setOf(pod);
      if (set !== undefined) used.getOrInsert(set.key, set);
    }
    return { used, identities, followedSince: Math.max(view.followedSince, followedSince) };
  }

  #tooLong(): readonly string[] {
    const keys = new Set(this.#keeper.tooLong.map(({ key }) => key));
    if (keys.size === 0) return [];
    return this.#context.view.pods
      .filter((pod) => keys.has(this.#identities.setOf(pod)?.key ?? ""))
      .map(({ namespace, name }) => `the labels of pod ${namespace}/${name} are too long for an identity`);
  }
}

interface ObjectsInput {
  readonly client: Pick<DutyContext["client"], "request">;
  readonly clock: Pick<DutyContext["clock"], "date">;
}

/** Keeps identities as objects of the API server, whose refusals are the port's answers. */
export function objectsOf({ client, clock }: ObjectsInput): IdentityStore {
  const pathOf = (number: number) => `${IDENTITY_PATH}/${number}`;
  const isDone = async (...request: Parameters<typeof answerUnless>) => (await answerUnless(...request)) !== undefined;
  return {
    create: (number, set) => {
      const body = JSON.stringify(newIdentity(number, set, CREATED_BY, clock.date().toISOString()));
      return isDone([409], client, { method: "POST", path: IDENTITY_PATH, body });
    },
    async get(number) {
      const answer = await answerUnless([404], client, { method: "GET", path: pathOf(number) });
      return answer === undefined ? undefined : decodeIdentity(parseObject(answer));
    },
    setState: (identity, retiredAt) => {
      const body = JSON.stringify(statePatch(identity, retiredAt));
      return isDone([404, 409], client, {
        method: "PATCH",
        path: pathOf(identity.number),
        body,
        contentType: "application/merge-patch+json",
      });
    },
    delete: ({ number, uid, resourceVersion }) => {
      const body = JSON.stringify({ apiVersion: "v1", kind: "DeleteOptions", preconditions: { uid, resourceVersion } });
      return isDone([404, 409], client, { method: "DELETE", path: pathOf(number), body });
    },
  };
}
