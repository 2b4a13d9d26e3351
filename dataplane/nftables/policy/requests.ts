/**
 * Makes the messages of a change, in the order in which nf_tables takes them within one transaction: what refers to a chain or a set comes
 * behind it, and a chain is deleted behind everything that led to it.
 *
 * A change falls into three steps: what nothing refers to yet is made; the switch, which is one transaction in every case; what nothing refers
 * to any more is deleted. A change that is too large for one datagram is cut in the first and the last step only, so that each part
 * leaves the old table or the new one, perhaps with something that nothing uses.
 */
import type { Slices } from "../../../lib/system/slices.ts";
import type { Request } from "../../netlink/socket.ts";
import { addElements, deleteElements, flushElements } from "../elements.ts";
import { emptying, newChain, newPlainChain, newRule, newTable, remove } from "../message.ts";
import { newSet } from "../sets.ts";
import { newCounter, removeCounter } from "./counters.ts";
import { POLICY_TABLE } from "./layout.ts";
import type { Chain, RulesetChange } from "./ruleset.ts";

const FAMILY = "inet";

/** Limits a datagram that can be cut. The kernel takes some 8 ms for one of this size, and nothing else of this process goes on meanwhile. */
const PART_BYTES = 256 * 1024;

/** Returns the transactions that carry the change out, one after the other; one, unless it is large. */
export async function transactionsOf(change: RulesetChange, slices: Slices): Promise<Request[][]> {
  const first = await made(preparation(change), slices);
  const second = await made(theSwitch(change), slices);
  const third = await made(cleaning(change), slices);
  const all = [...first, ...second, ...third];
  if (bytesOf(all) <= PART_BYTES) return all.length === 0 ? [] : [all];
  return [...parts(first), ...(second.length === 0 ? [] : [second]), ...parts(third)];
}

/**
 * Returns one transaction that deletes the table, there or not, and makes it with this content. A packet that is on its way through the old
 * rules at that moment no longer finds the elements of their maps, and is dropped; all others see the old table or the new one.
 */
export async function rebuilding(change: RulesetChange, slices: Slices): Promise<Request[]> {
  return [...emptying(FAMILY, POLICY_TABLE), ...(await made(preparation(change), slices)), ...(await made(theSwitch(change), slices))];
}

/** Makes all requests of a step, in slices. */
async function made(step: Iterable<Request>, slices: Slices): Promise<Request[]> {
  const result: Request[] = [];
  for (const request of step) {
    result.push(request);
    if (slices.isOver) await slices.next();
  }
  return result;
}

function* preparation({ newCounters, newSets, newChains }: RulesetChange): Generator<Request> {
  if (newCounters.length + newSets.size + newChains.size === 0) return;
  const plain = [...newChains].filter(([, chain]) => chain.hook === undefined);
  yield newTable(FAMILY, POLICY_TABLE);
  for (const name of newCounters) yield newCounter(FAMILY, POLICY_TABLE, name);
  for (const [name, { shape }] of newSets) yield newSet(FAMILY, POLICY_TABLE, name, shape);
  for (const [name] of plain) yield newPlainChain(FAMILY, POLICY_TABLE, name);
  for (const [name, chain] of plain) yield* rulesOf(name, chain);
  for (const [name, { shape, elements }] of newSets) yield* addElements(FAMILY, POLICY_TABLE, name, shape, elements);
}

function* theSwitch({ newChains, changedChains, elements }: RulesetChange): Generator<Request> {
  for (const [name, { removed, isFlushed }] of elements) {
    if (isFlushed === true) yield flushElements(FAMILY, POLICY_TABLE, name);
    else yield* deleteElements(FAMILY, POLICY_TABLE, name, removed);
  }
  for (const [name, { shape, added }] of elements) yield* addElements(FAMILY, POLICY_TABLE, name, shape, added);
  for (const [name, chain] of changedChains) {
    yield remove("rule", FAMILY, POLICY_TABLE, name);
    yield* rulesOf(name, chain);
  }
  for (const [name, chain] of newChains) {
    if (chain.hook === undefined) continue;
    yield newChain(FAMILY, POLICY_TABLE, chain.hook);
    yield* rulesOf(name, chain);
  }
}

function* cleaning({ goneChains, goneSets, goneCounters }: RulesetChange): Generator<Request> {
  for (const name of goneChains) yield remove("rule", FAMILY, POLICY_TABLE, name);
  // With their elements: a packet that is on its way through the old rules still finds them.
  for (const name of goneSets) yield remove("set", FAMILY, POLICY_TABLE, name);
  for (const name of goneChains) yield remove("chain", FAMILY, POLICY_TABLE, name);
  for (const name of goneCounters) yield removeCounter(FAMILY, POLICY_TABLE, name);
}

function* rulesOf(name: string, { rules }: Chain): Generator<Request> {
  for (const rule of rules) yield newRule(FAMILY, POLICY_TABLE, name, rule);
}

function parts(requests: readonly Request[]): Request[][] {
  const result: Request[][] = [];
  let size = Number.POSITIVE_INFINITY;
  for (const request of requests) {
    const length = request.payload.length;
    if (size + length > PART_BYTES) {
      result.push([]);
      size = 0;
    }
    result.at(-1)?.push(request);
    size += length;
  }
  return result;
}

function bytesOf(requests: readonly Request[]): number {
  return requests.reduce((sum, { payload }) => sum + payload.length, 0);
}
