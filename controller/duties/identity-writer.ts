/**
 * Creates the identity of a set of labels by one write (P§1.13): a number's object can be created once, so of several writers one wins, and
 * the others find out what it is.
 */
import { decodeIdentity, IDENTITY_PATH, type IdentityIndex, newIdentity, statePatch } from "../../lib/identity/identity-object.ts";
import type { LabelSet } from "../../lib/identity/labels.ts";
import { candidatesOf } from "../../lib/identity/numbers.ts";
import { parseObject } from "../../lib/json/decode.ts";
import type { ApiClient } from "../../lib/kubernetes/api-client.ts";
import type { Clock } from "../../lib/system/waiting.ts";
import { answerUnless } from "./duty.ts";

/** Of one number, which is created and deleted by others at the same time. */
const MOST_TRIES = 3;
const CREATED_BY = "tortie-controller";

interface WrittenIdentity {
  readonly number: number;
  /** It was not there before. */
  readonly isNew: boolean;
}

export class IdentityWriter {
  readonly #client: Pick<ApiClient, "request">;
  readonly #clock: Pick<Clock, "date">;

  constructor(client: Pick<ApiClient, "request">, clock: Pick<Clock, "date">) {
    this.#client = client;
    this.#clock = clock;
  }

  /**
   * Creates the identity, or finds the one that somebody else has created.
   *
   * @param known what is there already: numbers of others are skipped without a request
   * @param before the number that the set had, which is tried first
   * @returns `undefined` where every candidate is another set's
   * @throws ApiError
   */
  async ensure(set: LabelSet, known: IdentityIndex, before?: number): Promise<WrittenIdentity | undefined> {
    const numbers = new Set([...(before === undefined ? [] : [before]), ...candidatesOf(set.key)]);
    for (const number of numbers) {
      const there = known.get(number);
      if (there !== undefined && there.key !== set.key) continue;
      const owner = await this.#claim(number, set);
      if (owner !== "another") return { number, isNew: owner === "new" };
    }
    return undefined;
  }

  /** @returns whose number it is now: it was created for the set, or is the set's already, or another's */
  async #claim(number: number, set: LabelSet): Promise<"new" | "ours" | "another"> {
    const object = newIdentity(number, set, CREATED_BY, this.#clock.date().toISOString());
    for (let tries = 0; tries < MOST_TRIES; tries++) {
      const created = await answerUnless([409], this.#client, { method: "POST", path: IDENTITY_PATH, body: JSON.stringify(object) });
      if (created !== undefined) return "new";
      const answer = await answerUnless([404], this.#client, { method: "GET", path: `${IDENTITY_PATH}/${number}` });
      // It was deleted between the two requests.
      if (answer === undefined) continue;
      const there = decodeIdentity(parseObject(answer));
      if (there.key !== set.key) return "another";
      if (there.state === "retired") await this.#revive(number, statePatch(there, undefined));
      return "ours";
    }
    throw new Error(`identity ${number} is there and is not: it was refused and not found ${MOST_TRIES} times`);
  }

  /** One that has changed since it was read is looked at again when the watch shows it. */
  async #revive(number: number, patch: ReturnType<typeof statePatch>): Promise<void> {
    const path = `${IDENTITY_PATH}/${number}`;
    const body = JSON.stringify(patch);
    await answerUnless([404, 409], this.#client, { method: "PATCH", path, body, contentType: "application/merge-patch+json" });
  }
}
