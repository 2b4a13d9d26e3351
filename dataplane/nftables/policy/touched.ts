/** Remembers what changes of a content have touched, with what was there before, and says what of it differs then. */
import type { Slices } from "../../../lib/system/slices.ts";
import type { SetShape } from "../sets.ts";
import type { Chain, ElementsChange, NamedSet, Ruleset, RulesetChange } from "./ruleset.ts";

export class Touched {
  /** Set → key → verdict before; `undefined`: it was not there. */
  readonly #elements = new Map<string, Map<string, string | undefined>>();
  /** Set → its shape before; `undefined`: it was not there. */
  readonly #sets = new Map<string, SetShape | undefined>();
  /** Chain → whether it was there. */
  readonly #chains = new Map<string, boolean>();

  /** @param before its verdict; `undefined`: it is not there yet */
  element(set: string, key: string, before: string | undefined): void {
    const touched = this.#elements.getOrInsertComputed(set, () => new Map());
    if (!touched.has(key)) touched.set(key, before);
  }

  /** @param before its shape; `undefined`: it is not there yet */
  set(name: string, before: SetShape | undefined): void {
    if (!this.#sets.has(name)) this.#sets.set(name, before);
  }

  chain(name: string, isThere: boolean): void {
    if (!this.#chains.has(name)) this.#chains.set(name, isThere);
  }

  /** Returns how what is there now differs from what was there before. */
  async changeTo(now: Pick<Ruleset, "sets" | "chains">, slices: Slices): Promise<RulesetChange> {
    const newSets = new Map<string, NamedSet>();
    const goneSets: string[] = [];
    for (const [name, before] of this.#sets) {
      const there = now.sets.get(name);
      if (before === undefined && there !== undefined) newSets.set(name, there);
      if (before !== undefined && there === undefined) goneSets.push(name);
    }
    const elements = new Map<string, ElementsChange>();
    for (const [name, touched] of this.#elements) {
      const set = now.sets.get(name);
      if (set === undefined || newSets.has(name)) continue;
      const change = elementsChange(set, touched);
      if (change !== undefined) elements.set(name, change);
      if (slices.isOver) await slices.next();
    }
    const newChains = new Map<string, Chain>();
    const changedChains = new Map<string, Chain>();
    const goneChains: string[] = [];
    for (const [name, wasThere] of this.#chains) {
      const there = now.chains.get(name);
      if (there !== undefined) (wasThere ? changedChains : newChains).set(name, there);
      else if (wasThere) goneChains.push(name);
    }
    return { newCounters: [], goneCounters: [], newSets, goneSets, elements, newChains, changedChains, goneChains };
  }
}

function elementsChange({ shape, elements }: NamedSet, touched: ReadonlyMap<string, string | undefined>): ElementsChange | undefined {
  const removed: string[] = [];
  const added: [string, string][] = [];
  for (const [key, before] of touched) {
    const now = elements.get(key);
    if (now === before) continue;
    if (before !== undefined) removed.push(key);
    if (now !== undefined) added.push([key, now]);
  }
  return removed.length + added.length === 0 ? undefined : { shape, removed, added };
}
