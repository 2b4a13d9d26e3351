/** Reads what the kernel has of our table. */
import type { Slices } from "../../../lib/system/slices.ts";
import { type Message, readText, unlessMissing } from "../../netlink/message.ts";
import type { Netlink } from "../../netlink/socket.ts";
import { ask, attributesOf, type ListedChain, nameWithin, parseChain } from "../message.ts";
import { isAnonymous } from "../sets.ts";
import { counterNames } from "./counters.ts";
import { POLICY_TABLE } from "./layout.ts";

const FAMILY = "inet";
const NFTA_TABLE_FLAGS = 2;
const NFTA_RULE_TABLE = 1;
const NFTA_RULE_CHAIN = 2;
const NFTA_RULE_EXPRESSIONS = 4;

/** A chain of the kernel. */
export interface FoundChain extends Pick<ListedChain, "hook"> {
  /** The expressions of each rule, as the kernel lists them. */
  readonly rules: Uint8Array[];
}

export interface FoundTable {
  /** Somebody has put the table to sleep: none of its chains is asked. */
  readonly isDormant: boolean;
  readonly counters: readonly string[];
  readonly chains: ReadonlyMap<string, FoundChain>;
  /** The definition of each named set. */
  readonly sets: ReadonlyMap<string, Message>;
  /** Reads the elements of a set. */
  elements(set: string): readonly Message[];
}

/**
 * Reads the table in slices. Others may change it meanwhile: who relies on the whole asks for the generation before and gives it along.
 * @returns `undefined` when there is no such table
 */
export async function readTable(socket: Netlink, slices: Slices): Promise<FoundTable | undefined> {
  const table = unlessMissing(() => socket.request(ask("table", FAMILY, POLICY_TABLE))[0]);
  if (table === undefined) return undefined;
  const flags = attributesOf(table).get(NFTA_TABLE_FLAGS);
  const chains = new Map<string, FoundChain>();
  for (const message of socket.dump(ask("chain", FAMILY, POLICY_TABLE))) {
    const name = nameWithin("chain", FAMILY, POLICY_TABLE, message);
    if (name !== undefined) chains.set(name, { hook: parseChain(message).hook, rules: [] });
  }
  for (const message of socket.dump(ask("rule", FAMILY, POLICY_TABLE))) {
    const attributes = attributesOf(message);
    if (readText(attributes.get(NFTA_RULE_TABLE)) !== POLICY_TABLE) continue;
    const chain = chains.get(readText(attributes.get(NFTA_RULE_CHAIN)) ?? "");
    chain?.rules.push(attributes.get(NFTA_RULE_EXPRESSIONS) ?? new Uint8Array());
    if (slices.isOver) await slices.next();
  }
  const sets = new Map<string, Message>();
  for (const message of socket.dump(ask("set", FAMILY, POLICY_TABLE))) {
    const name = nameWithin("set", FAMILY, POLICY_TABLE, message);
    // Belongs to a rule, and goes with it.
    if (name !== undefined && !isAnonymous(message)) sets.set(name, message);
    if (slices.isOver) await slices.next();
  }
  return {
    isDormant: flags?.some((octet) => octet !== 0) === true,
    counters: counterNames(socket),
    chains,
    sets,
    elements: (set) => socket.dump(ask("element", FAMILY, POLICY_TABLE, set)),
  };
}
