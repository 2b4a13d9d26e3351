/**
 * Compares what the kernel has of our table with what it must have: what has to change, and each difference in words.
 *
 * Of a rule, every parameter that we write must be in the kernel's answer; newer kernels list more than they were told.
 */
import { formatAddress } from "../../../lib/addresses/address.ts";
import type { Slices } from "../../../lib/system/slices.ts";
import {
  type Attribute,
  addressOf,
  attributeMap,
  NLA_F_NESTED,
  NLA_TYPE_MASK,
  parseAttributes,
  readText,
  viewOf,
} from "../../netlink/message.ts";
import { type Elements, elementsIn } from "../elements.ts";
import type { Expression } from "../message.ts";
import { ADDRESS, hasShape, IFNAME, INET_PROTO, type SetShape } from "../sets.ts";
import type { FoundChain, FoundTable } from "./dump.ts";
import { POLICY_TABLE } from "./layout.ts";
import type { Chain, ElementsChange, NamedSet, Rule, Ruleset, RulesetChange } from "./ruleset.ts";
import { fromNothing } from "./ruleset.ts";

/** Elements of one set that are named; the rest is counted. */
const NAMED_ELEMENTS = 3;

export interface Comparison {
  /** One phrase for each difference: "chain forward has other rules". */
  readonly differences: readonly string[];
  readonly change: RulesetChange;
  /** The table must be deleted and made again, in one transaction: something in it cannot be changed. */
  readonly isRebuilt: boolean;
}

/** Compares in slices, as `readTable` reads. */
export async function compare(found: FoundTable | undefined, wanted: Ruleset, slices: Slices): Promise<Comparison> {
  if (found === undefined) {
    return { differences: [`table inet ${POLICY_TABLE} is missing`], change: fromNothing(wanted), isRebuilt: false };
  }
  const unchangeable = unchangeableIn(found, wanted);
  if (unchangeable.length > 0) return { differences: unchangeable, change: fromNothing(wanted), isRebuilt: true };
  const elements: ({ name: string } & ElementsDifference)[] = [];
  for (const [name, set] of wanted.sets) {
    const difference = found.sets.has(name) ? differenceOf(found, name, set) : undefined;
    if (difference !== undefined) elements.push({ name, ...difference });
    if (slices.isOver) await slices.next();
  }
  const changedChains = new Map<string, Chain>();
  for (const [name, chain] of wanted.chains) {
    if (hasOtherRules(found.chains.get(name), chain)) changedChains.set(name, chain);
    if (slices.isOver) await slices.next();
  }
  const isNotFound = ([name]: readonly [string, unknown]) => !found.sets.has(name);
  const change: RulesetChange = {
    newCounters: wanted.counters.filter((name) => !found.counters.includes(name)),
    goneCounters: found.counters.filter((name) => !wanted.counters.includes(name)),
    newSets: new Map([...wanted.sets].filter(isNotFound)),
    goneSets: [...found.sets.keys()].filter((name) => !wanted.sets.has(name)),
    elements: new Map(elements.map(({ name, change: one }) => [name, one])),
    newChains: new Map([...wanted.chains].filter(([name]) => !found.chains.has(name))),
    changedChains,
    goneChains: [...found.chains.keys()].filter((name) => !wanted.chains.has(name)),
  };
  return { differences: [...inWords(change), ...elements.flatMap(({ words }) => words)], change, isRebuilt: false };
}

function unchangeableIn(found: FoundTable, { sets, chains }: Ruleset): string[] {
  const asleep = found.isDormant ? [`table inet ${POLICY_TABLE} is dormant`] : [];
  const otherSets = [...sets].flatMap(([name, { shape }]) => {
    const message = found.sets.get(name);
    return message === undefined || hasShape(message, shape) ? [] : [`${kindOf(shape)} ${name} has another type`];
  });
  const otherChains = [...chains].flatMap(([name, { hook }]) => {
    const there = found.chains.get(name);
    if (there === undefined) return [];
    const isSame =
      hook?.hook === there.hook?.hook &&
      hook?.priority === there.hook?.priority &&
      hook?.type === there.hook?.type &&
      there.hook?.accepts !== false;
    return isSame ? [] : [`chain ${name} is at another hook, or has another priority or policy`];
  });
  return [...asleep, ...otherSets, ...otherChains];
}

function hasOtherRules(found: FoundChain | undefined, { rules }: Chain): boolean {
  if (found === undefined) return false;
  return found.rules.length !== rules.length || !rules.every((rule, at) => isSameRule(rule, found.rules[at] ?? new Uint8Array()));
}

function isSameRule(rule: Rule, found: Uint8Array): boolean {
  const list = parseAttributes(found);
  return list.length === rule.length && rule.every((expression, at) => isSameExpression(expression, list[at]?.payload ?? new Uint8Array()));
}

function isSameExpression({ name, parameters }: Expression, found: Uint8Array): boolean {
  const attributes = attributeMap(found);
  return readText(attributes.get(1)) === name && includesAll(parameters, attributes.get(2) ?? new Uint8Array());
}

function includesAll(wanted: readonly Attribute[], found: Uint8Array): boolean {
  const attributes = attributeMap(found);
  return wanted.every(({ type, payload }) => {
    const there = attributes.get(type & NLA_TYPE_MASK);
    if (there === undefined) return false;
    if ((type & NLA_F_NESTED) !== 0) return includesAll(nestedIn(payload), there);
    return Buffer.compare(payload, there) === 0;
  });
}

/** Reads the attributes with the flags of their types, which `parseAttributes` takes off. */
function nestedIn(payload: Uint8Array): Attribute[] {
  const view = new DataView(payload.buffer, payload.byteOffset, payload.length);
  const result: Attribute[] = [];
  for (let at = 0; at < payload.length; at += Math.ceil(view.getUint16(at, true) / 4) * 4) {
    result.push({ type: view.getUint16(at + 2, true), payload: payload.subarray(at + 4, at + view.getUint16(at, true)) });
  }
  return result;
}

interface ElementsDifference {
  readonly change: ElementsChange;
  readonly words: readonly string[];
}

function differenceOf(found: FoundTable, name: string, { shape, elements }: NamedSet): ElementsDifference | undefined {
  if (shape.filledByRules !== undefined) return undefined;
  const there = elementsIn(found.elements(name), shape);
  if (there === undefined) {
    const change: ElementsChange = { shape, removed: [], added: [...elements], isFlushed: true };
    return { change, words: [`${kindOf(shape)} ${name} has elements that tortie does not write`] };
  }
  if (isSame(there, elements)) return undefined;
  const removed = [...there].filter(([key, verdict]) => elements.get(key) !== verdict);
  const added = [...elements].filter(([key, verdict]) => there.get(key) !== verdict);
  const missing = added.filter(([key]) => !there.has(key));
  const wrong = added.filter(([key]) => there.has(key));
  const surplus = removed.filter(([key]) => !elements.has(key));
  const words = [
    ...listed(missing, ([key]) => `${kindOf(shape)} ${name} lacks ${keyInWords(shape, key)}`),
    ...listed(
      wrong,
      ([key, verdict]) => `${kindOf(shape)} ${name} has "${there.get(key)}" for ${keyInWords(shape, key)}, not "${verdict}"`,
    ),
    ...listed(surplus, ([key]) => `${kindOf(shape)} ${name} has ${keyInWords(shape, key)}, which does not belong there`),
  ];
  return { change: { shape, removed: removed.map(([key]) => key), added }, words };
}

function isSame(there: Elements, wanted: Elements): boolean {
  if (there.size !== wanted.size) return false;
  for (const [key, verdict] of wanted) if (there.get(key) !== verdict) return false;
  return true;
}

function listed<T>(all: readonly T[], inWordsOf: (one: T) => string): string[] {
  const more = all.length - NAMED_ELEMENTS;
  return all
    .slice(0, NAMED_ELEMENTS)
    .map((one, at) => inWordsOf(one) + (at === NAMED_ELEMENTS - 1 && more > 0 ? `, and ${more} more` : ""));
}

function inWords(change: RulesetChange): string[] {
  const is = (kind: string, names: Iterable<string>, what: string) => [...names].map((name) => `${kind} ${name} ${what}`);
  return [
    ...is("counter", change.newCounters, "is missing"),
    ...[...change.newSets].map(([name, { shape }]) => `${kindOf(shape)} ${name} is missing`),
    ...is("chain", change.newChains.keys(), "is missing"),
    ...is("chain", change.changedChains.keys(), "has other rules"),
    ...is("chain", change.goneChains, "does not belong there"),
    ...is("set", change.goneSets, "does not belong there"),
    ...is("counter", change.goneCounters, "does not belong there"),
  ];
}

function kindOf({ isMap }: SetShape): string {
  return isMap ? "map" : "set";
}

const PROTOCOLS: Readonly<Record<number, string>> = { 6: "tcp", 17: "udp", 132: "sctp" };

/** Writes a key as `nft` does: "cali1 . tcp . 80". */
function keyInWords({ fields }: SetShape, key: string): string {
  let at = 0;
  const words = fields.map((field) => {
    const octets = Buffer.from(key.slice(at, at + field.bytes), "latin1");
    at += Math.ceil(field.bytes / 4) * 4;
    if (field === IFNAME) return octets.toString().replace(/\0+$/, "");
    if (field === ADDRESS[4] || field === ADDRESS[6]) return formatAddress(addressOf(field === ADDRESS[4] ? 4 : 6, octets));
    if (field === INET_PROTO) return PROTOCOLS[octets[0] ?? 0] ?? String(octets[0]);
    return String(viewOf(octets, 2).getUint16(0));
  });
  return words.join(" . ");
}
