/**
 * Gets a node its automatic ranges on Kubernetes (A§1.4): claims them in the annotations of its Node object, asks for all nodes, and
 * says that it has them when they are nobody else's. No address may be given before; each later look finds a node that has them too.
 */
import { formatPrefix, type Prefix } from "../../lib/addresses/address.ts";
import { annotatedSource, claimedRanges, claimPatch, holdPatch, rangeAnnotation, withdrawalPatch } from "./annotations.ts";
import { type Contention, contentionFor, worstOf } from "./contention.ts";
import type { NodeFacts } from "./node-facts.ts";
import type { Ranges } from "./ranges.ts";

interface AnnotatedNodes {
  /** Every node as it is now: every write before the question is in the answer. */
  list(): Promise<readonly NodeFacts[]>;
  /** Merges annotations of this node. */
  annotate(annotations: Readonly<Record<string, string | null>>): Promise<void>;
}

/** To claim, to have, and once more for a writer beside us. */
const MOST_LOOKS = 4;

export class AutomaticRanges {
  readonly #nodes: AnnotatedNodes;
  readonly #name: string;

  /** @param name of this node */
  constructor(nodes: AnnotatedNodes, name: string) {
    this.#nodes = nodes;
    this.#name = name;
  }

  /**
   * Looks whether the automatic ones of `ranges` are this node's, and makes them so where they are free. What is `taken` is given up in the
   * annotations too, so that no other node believes it.
   * @param areInUse addresses of them have been given
   * @throws ApiError; TransportError; Error when the Node object is gone
   */
  async prove(ranges: Ranges, areInUse: boolean): Promise<Contention> {
    const made = Object.values(ranges).flatMap(({ cidr, source }) => (source === "automatic" ? [cidr] : []));
    if (made.length === 0) return { outcome: "free" };
    for (let look = 0; look < MOST_LOOKS; look++) {
      const nodes = await this.#nodes.list();
      const self = nodes.find(({ name }) => name === this.#name);
      if (self === undefined) throw new Error(`node ${this.#name} does not exist`);
      const isHeld = made.every((range) => holds(self, range));
      const contention = worstOf(made.map((range) => contentionFor(range, self, areInUse || holds(self, range), nodes)));
      if (contention.outcome === "taken") {
        await this.#withdraw(self, made);
        return contention;
      }
      if (isHeld) return contention;
      const isClaimed = made.every((range) => claimedRanges(self.annotations).some((one) => isSame(one, range)));
      if (areInUse) {
        // Somebody took the annotation away, or the object was made anew: the next look tells who has the range besides.
        await this.#nodes.annotate(holdPatch(ranges));
      } else if (!isClaimed) {
        await this.#nodes.annotate(claimPatch(made));
      } else {
        // The list was asked for after the claim had been written.
        if (contention.outcome === "free") await this.#nodes.annotate(holdPatch(ranges));
        return contention;
      }
    }
    throw new Error(`the annotations of node ${this.#name} do not stay as they are written`);
  }

  async #withdraw({ annotations }: NodeFacts, made: readonly Prefix[]): Promise<void> {
    const families = made.map(({ address }) => address.family);
    const patch = withdrawalPatch(annotations, families);
    if (patch !== undefined) await this.#nodes.annotate(patch);
  }
}

function holds({ annotations }: NodeFacts, range: Prefix): boolean {
  const { family } = range.address;
  return annotatedSource(annotations, family) === "automatic" && annotations[rangeAnnotation(family)] === formatPrefix(range);
}

function isSame(one: Prefix, other: Prefix): boolean {
  return formatPrefix(one) === formatPrefix(other);
}
