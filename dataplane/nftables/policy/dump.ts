/** Reads what the kernel has of our table. */
import type { Slices } from "../../../lib/system/slices.ts";
import { attributeMap, type Message, readText, unlessMissing } from "../../netlink/message.ts";
import type { Netlink } from "../../netlink/socket.ts";
import { ask, type BaseChain, NFGENMSG_BYTES, nameWithin } from "../message.ts";
import { isAnonymous } from "../sets.ts";
import { counterNames } from "./counters.ts";
import { POLICY_TABLE } from "./layout.ts";

const FAMILY = "inet";
const NFTA_TABLE_FLAGS = 2;
const NFTA_CHAIN_NAME = 3;
const NFTA_CHAIN_HOOK = 4;
const NFTA_CHAIN_POLICY = 5;
const NFTA_CHAIN_TYPE = 7;
const NFTA_HOOK_HOOKNUM = 1;
const NFTA_HOOK_PRIORITY = 2;
const NFTA_RULE_TABLE = 1;
const NFTA_RULE_CHAIN = 2;
const NFTA_RULE_EXPRESSIONS = 4;
const NF_ACCEPT = 1;

/** A chain of the kernel. */
export interface FoundChain {
  /** `undefined`: packets come from other chains only. */
  readonly hook: (Omit<BaseChain, "name"> & { readonly accepts: boolean }) | undefined;
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
    if (nameWithin("chain", FAMILY, POLICY_TABLE, message) === undefined) continue;
    const attributes = attributesOf(message);
    chains.set(readText(attributes.get(NFTA_CHAIN_NAME)) ?? "", { hook: hookOf(attributes), rules: [] });
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

function hookOf(attributes: ReadonlyMap<number, Uint8Array>): FoundChain["hook"] {
  const nested = attributes.get(NFTA_CHAIN_HOOK);
  if (nested === undefined) return undefined;
  const hook = attributeMap(nested);
  return {
    type: readText(attributes.get(NFTA_CHAIN_TYPE)) === "filter" ? "filter" : "nat",
    hook: numberOf(hook.get(NFTA_HOOK_HOOKNUM)),
    priority: numberOf(hook.get(NFTA_HOOK_PRIORITY)),
    accepts: numberOf(attributes.get(NFTA_CHAIN_POLICY)) === NF_ACCEPT,
  };
}

function numberOf(value: Uint8Array | undefined): number {
  return value === undefined ? 0 : new DataView(value.buffer, value.byteOffset, value.length).getInt32(0, false);
}

function attributesOf({ payload }: Message): ReadonlyMap<number, Uint8Array> {
  return attributeMap(payload.subarray(NFGENMSG_BYTES));
}
