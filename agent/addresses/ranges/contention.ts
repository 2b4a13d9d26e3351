/**
 * Decides whether an automatic range can be this node's (A§1.4). Each node makes its own up without asking, so that two may want the same
 * one. A node first says that it wants the range, and has it when a list of the nodes, asked for after that, names nobody else: of two
 * nodes the one that asks later sees the other one. Where both see each other the older Node object goes first.
 */
import { formatPrefix, overlaps, type Prefix, parsePrefix } from "../../../lib/addresses/address.ts";
import { annotatedSource, claimedRanges, claimPatch, holdPatch, rangeAnnotation, withdrawalPatch } from "./annotations.ts";
import type { NodeFacts, NodeObjects } from "./node-object.ts";
import type { Ranges } from "./sources.ts";

/**
 * `free`: nobody else has it or wants it. `yielded`: another node has it too and will give it up. `contested`: another node wants it
 * too, and has to give up first. `taken`: it is another node's.
 */
export type Contention = { readonly outcome: "free" } | { readonly outcome: "yielded" | "contested" | "taken"; readonly cause: string };

/** From the best outcome to the worst one. */
const ORDER = ["free", "yielded", "contested", "taken"] as const;

/**
 * @param self this node, of the same list
 * @param isHeld addresses of the range have been given, so that no claim takes it away
 */
export function contentionFor(range: Prefix, self: NodeFacts, isHeld: boolean, nodes: readonly NodeFacts[]): Contention {
  const others = nodes.filter(({ name }) => name !== self.name);
  return worstOf(others.map((other) => contentionWith(other, range, self, isHeld)));
}

export function worstOf(found: readonly Contention[]): Contention {
  const rank = ({ outcome }: Contention) => ORDER.indexOf(outcome);
  return found.reduce((worst, one) => (rank(one) > rank(worst) ? one : worst), { outcome: "free" });
}

function contentionWith(other: NodeFacts, range: Prefix, self: NodeFacts, isHeld: boolean): Contention {
  const because = (outcome: "yielded" | "contested" | "taken", theirs: Prefix): Contention => ({
    outcome,
    cause: `automatic range ${formatPrefix(range)} overlaps with ${formatPrefix(theirs)} of node ${other.name}${ADVICE[outcome]}`,
  });
  const { given, said } = rangesOf(other);
  const firm = given.find((one) => overlaps(one, range));
  if (firm !== undefined) return because("taken", firm);
  const held = said.find((one) => one.length >= range.length && overlaps(one, range));
  if (held !== undefined) return because(isHeld && isOlder(self, other) ? "yielded" : "taken", held);
  // A claim is believed for an equal range only: one node must not claim what all others would make up.
  const claimed = claimedRanges(other.annotations).find((one) => formatPrefix(one) === formatPrefix(range));
  if (claimed === undefined || isHeld) return { outcome: "free" };
  return because(isOlder(self, other) ? "contested" : "taken", claimed);
}

const ADVICE = {
  yielded: ", which is younger and has to give it up: pods of both nodes may have the same address",
  contested: ", which is younger and has not given it up yet",
  taken: "",
} as const;

/** Says which Node object was made first, by the API server's date. */
function isOlder(one: NodeFacts, other: NodeFacts): boolean {
  if (one.createdAt !== other.createdAt) return one.createdAt < other.createdAt;
  return one.name < other.name;
}

/**
 * Lists what the cluster gave a node, and what the node says by itself. The latter is its own word, which whoever runs it can write
 * (design, invariant 17): where it was given a range it is ignored, as the routes of other nodes ignore what lies outside; otherwise it
 * counts up to the size of an automatic range, and between two nodes by their age. One node's word therefore takes one node's range at
 * most.
 */
function rangesOf({ podCIDRs, podCIDR, annotations }: NodeFacts): { readonly given: readonly Prefix[]; readonly said: readonly Prefix[] } {
  const parsed = (texts: readonly string[]) => texts.flatMap((text) => parsePrefix(text) ?? []);
  const given = parsed([...podCIDRs, podCIDR]);
  const silent = ([4, 6] as const).filter((family) => !given.some(({ address }) => address.family === family));
  return { given, said: parsed(silent.map((family) => annotations[rangeAnnotation(family)] ?? "")) };
}

/** To claim, to have, and once more for a writer beside us. */
const MOST_LOOKS = 4;

/**
 * Gets a node its automatic ranges on Kubernetes: claims them in the annotations of its Node object, asks for all nodes, and
 * says that it has them when they are nobody else's. No address may be given before; each later look finds a node that has them too.
 */
export class AutomaticRanges {
  readonly #nodes: Pick<NodeObjects, "list" | "annotate">;
  readonly #name: string;

  /** @param name of this node */
  constructor(nodes: Pick<NodeObjects, "list" | "annotate">, name: string) {
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
        // Somebody took the annotation away, or the object was made again: the next look shows who else has the range.
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
