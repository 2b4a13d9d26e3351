/** nf_tables over nfnetlink: the few objects that one table of ours is made of (include/uapi/linux/netfilter/nf_tables.h, nfnetlink.h). */
import { type Attribute, attributeMap, bytes, encodeAttributes, nest, readText, text, u32be } from "../netlink/attribute.ts";
import { type Message, NLM_F_ACK, NLM_F_APPEND, NLM_F_CREATE } from "../netlink/message.ts";
import type { Request } from "../netlink/socket.ts";

const NFNL_SUBSYS_NFTABLES = 10;
const NFNL_MSG_BATCH_BEGIN = 16;
const NFNL_MSG_BATCH_END = 17;

const NFT_MSG = {
  newTable: 0,
  getTable: 1,
  deleteTable: 2,
  newChain: 3,
  getChain: 4,
  deleteChain: 5,
  newRule: 6,
  deleteRule: 8,
  newSet: 9,
  getSet: 10,
  deleteSet: 11,
  newSetElement: 12,
  getGeneration: 16,
} as const;
/** include/uapi/linux/netfilter/nfnetlink.h */
const NFNL_BATCH_GENID = 1;
const NFTA_GEN_ID = 1;

/** include/uapi/linux/netfilter.h */
const NFPROTO = { inet: 1, ip: 2, ip6: 10 } as const;
export type TableFamily = keyof typeof NFPROTO;

const NFTA_LIST_ELEM = 1;
const NFTA_TABLE_NAME = 1;
export const NFTA_TABLE_USERDATA = 6;
const NFTA_CHAIN_TABLE = 1;
const NFTA_CHAIN_NAME = 3;
const NFTA_CHAIN_HOOK = 4;
const NFTA_CHAIN_POLICY = 5;
const NFTA_CHAIN_TYPE = 7;
const NFTA_HOOK_HOOKNUM = 1;
const NFTA_HOOK_PRIORITY = 2;
const NF_ACCEPT = 1;
const NFTA_SET_TABLE = 1;
const NFTA_SET_NAME = 2;
const NFTA_SET_FLAGS = 3;
const NFTA_SET_KEY_TYPE = 4;
const NFTA_SET_KEY_LEN = 5;
const NFTA_SET_ID = 10;
const NFT_SET_INTERVAL = 4;
const NFTA_SET_ELEM_LIST_TABLE = 1;
const NFTA_SET_ELEM_LIST_SET = 2;
const NFTA_SET_ELEM_LIST_ELEMENTS = 3;
const NFTA_SET_ELEM_KEY = 1;
const NFTA_SET_ELEM_FLAGS = 3;
const NFT_SET_ELEM_INTERVAL_END = 1;
const NFTA_DATA_VALUE = 1;
const NFTA_RULE_TABLE = 1;
const NFTA_RULE_CHAIN = 2;
const NFTA_RULE_EXPRESSIONS = 4;
const NFTA_EXPR_NAME = 1;
const NFTA_EXPR_DATA = 2;

/** One step of a rule: its name in the kernel and its parameters. */
export interface Expression {
  readonly name: string;
  readonly parameters: readonly Attribute[];
}

/** An edge of an interval: the first address that belongs to it, or the first that does not any more. */
export interface Edge {
  readonly key: Uint8Array;
  readonly isEnd: boolean;
}

/**
 * Makes one transaction of requests: the kernel carries out all of them or none (net/netfilter/nfnetlink.c, nfnetlink_rcv_batch).
 * @param generation what `generationOf` read: the kernel answers ERESTART when anything in nftables has changed since (nf_tables_valid_genid)
 */
export function transaction(requests: readonly Request[], generation?: number): Request[] {
  const bracket = (type: number, attributes: readonly Attribute[] = []): Request => ({
    type,
    payload: payloadOf(0, NFNL_SUBSYS_NFTABLES, attributes),
  });
  const inner = requests.map((request) => ({ ...request, flags: (request.flags ?? 0) | NLM_F_ACK }));
  const condition = generation === undefined ? [] : [u32be(NFNL_BATCH_GENID, generation)];
  return [bracket(NFNL_MSG_BATCH_BEGIN, condition), ...inner, bracket(NFNL_MSG_BATCH_END)];
}

/** Asks for the number that each change of nftables in this namespace raises. */
export function getGeneration(): Request {
  return message(NFT_MSG.getGeneration, "inet", 0, []);
}

export function parseGeneration({ payload }: Message): number | undefined {
  const value = attributeMap(payload.subarray(NFGENMSG_BYTES)).get(NFTA_GEN_ID);
  return value === undefined ? undefined : new DataView(value.buffer, value.byteOffset, value.length).getUint32(0, false);
}

export function getTable(family: TableFamily, name: string): Request {
  return message(NFT_MSG.getTable, family, 0, [text(NFTA_TABLE_NAME, name)]);
}

/** Creates the table if it is not there. `userData` is kept only by a table that this request creates. */
export function newTable(family: TableFamily, name: string, userData?: Uint8Array): Request {
  const data = userData === undefined ? [] : [bytes(NFTA_TABLE_USERDATA, userData)];
  return message(NFT_MSG.newTable, family, NLM_F_CREATE, [text(NFTA_TABLE_NAME, name), ...data]);
}

/** Deletes the table with everything in it; it must be there. */
export function deleteTable(family: TableFamily, name: string): Request {
  return message(NFT_MSG.deleteTable, family, 0, [text(NFTA_TABLE_NAME, name)]);
}

/** A chain that packets come to by themselves, at a hook. */
export interface BaseChain {
  readonly name: string;
  readonly type: "filter" | "nat";
  readonly hook: number;
  readonly priority: number;
}

export function newChain(family: TableFamily, table: string, { name, type, hook, priority }: BaseChain): Request {
  return message(NFT_MSG.newChain, family, NLM_F_CREATE, [
    text(NFTA_CHAIN_TABLE, table),
    text(NFTA_CHAIN_NAME, name),
    nest(NFTA_CHAIN_HOOK, [u32be(NFTA_HOOK_HOOKNUM, hook), u32be(NFTA_HOOK_PRIORITY, priority)]),
    u32be(NFTA_CHAIN_POLICY, NF_ACCEPT),
    text(NFTA_CHAIN_TYPE, type),
  ]);
}

/** A chain that packets come to from other chains only. */
export function newPlainChain(family: TableFamily, table: string, name: string): Request {
  return message(NFT_MSG.newChain, family, NLM_F_CREATE, [text(NFTA_CHAIN_TABLE, table), text(NFTA_CHAIN_NAME, name)]);
}

/** Asks for one chain, or in a dump for all of all tables. */
export function getChain(family: TableFamily, table?: string, name?: string): Request {
  return message(NFT_MSG.getChain, family, 0, [
    ...(table === undefined ? [] : [text(NFTA_CHAIN_TABLE, table)]),
    ...(name === undefined ? [] : [text(NFTA_CHAIN_NAME, name)]),
  ]);
}

/** Deletes an empty chain that no rule leads to. */
export function deleteChain(family: TableFamily, table: string, name: string): Request {
  return message(NFT_MSG.deleteChain, family, 0, [text(NFTA_CHAIN_TABLE, table), text(NFTA_CHAIN_NAME, name)]);
}

/** Asks for one set, or in a dump for all of the table. */
export function getSet(family: TableFamily, table: string, name?: string): Request {
  return message(NFT_MSG.getSet, family, 0, [text(NFTA_SET_TABLE, table), ...(name === undefined ? [] : [text(NFTA_SET_NAME, name)])]);
}

/** Deletes a set that no rule uses. */
export function deleteSet(family: TableFamily, table: string, name: string): Request {
  return message(NFT_MSG.deleteSet, family, 0, [text(NFTA_SET_TABLE, table), text(NFTA_SET_NAME, name)]);
}

/** The name of a chain that a dump told of, whatever its table. */
export function chainName({ payload }: Message): string | undefined {
  return readText(attributeMap(payload.subarray(NFGENMSG_BYTES)).get(NFTA_CHAIN_NAME));
}

/** The name of a chain that a dump told of; `undefined` for one of another table. */
export function chainWithin(family: TableFamily, table: string, found: Message): string | undefined {
  return nameWithin(family, table, found, NFTA_CHAIN_NAME);
}

/** The name of a set that a dump told of; `undefined` for one of another table. */
export function setWithin(family: TableFamily, table: string, found: Message): string | undefined {
  return nameWithin(family, table, found, NFTA_SET_NAME);
}

/** Chains and sets both name their table in attribute 1. */
function nameWithin(family: TableFamily, table: string, { payload }: Message, attribute: number): string | undefined {
  const attributes = attributeMap(payload.subarray(NFGENMSG_BYTES));
  if (payload[0] !== NFPROTO[family] || readText(attributes.get(NFTA_CHAIN_TABLE)) !== table) return undefined;
  return readText(attributes.get(attribute));
}

/**
 * A set of intervals of addresses.
 * @param keyType what `nft` calls the type of the key, as a number of its own: 7 for ipv4_addr, 8 for ipv6_addr
 */
export function newIntervalSet(family: TableFamily, table: string, name: string, keyType: number, keyLength: number): Request {
  return message(NFT_MSG.newSet, family, NLM_F_CREATE, [
    text(NFTA_SET_TABLE, table),
    text(NFTA_SET_NAME, name),
    u32be(NFTA_SET_FLAGS, NFT_SET_INTERVAL),
    u32be(NFTA_SET_KEY_TYPE, keyType),
    u32be(NFTA_SET_KEY_LEN, keyLength),
    // Required, although all of ours are found by their names.
    u32be(NFTA_SET_ID, 1),
  ]);
}

export function newElements(family: TableFamily, table: string, set: string, edges: readonly Edge[]): Request {
  const elements = edges.map(({ key, isEnd }) =>
    nest(NFTA_LIST_ELEM, [
      nest(NFTA_SET_ELEM_KEY, [bytes(NFTA_DATA_VALUE, key)]),
      ...(isEnd ? [u32be(NFTA_SET_ELEM_FLAGS, NFT_SET_ELEM_INTERVAL_END)] : []),
    ]),
  );
  return message(NFT_MSG.newSetElement, family, NLM_F_CREATE, [
    text(NFTA_SET_ELEM_LIST_TABLE, table),
    text(NFTA_SET_ELEM_LIST_SET, set),
    nest(NFTA_SET_ELEM_LIST_ELEMENTS, elements),
  ]);
}

/** Appends a rule to a chain. */
export function newRule(family: TableFamily, table: string, chain: string, expressions: readonly Expression[]): Request {
  const list = expressions.map(({ name, parameters }) =>
    nest(NFTA_LIST_ELEM, [text(NFTA_EXPR_NAME, name), nest(NFTA_EXPR_DATA, parameters)]),
  );
  return message(NFT_MSG.newRule, family, NLM_F_CREATE | NLM_F_APPEND, [
    text(NFTA_RULE_TABLE, table),
    text(NFTA_RULE_CHAIN, chain),
    nest(NFTA_RULE_EXPRESSIONS, list),
  ]);
}

/** Deletes every rule of a chain. */
export function emptyChain(family: TableFamily, table: string, chain: string): Request {
  return message(NFT_MSG.deleteRule, family, 0, [text(NFTA_RULE_TABLE, table), text(NFTA_RULE_CHAIN, chain)]);
}

/** Length of struct nfgenmsg, which is before the attributes. */
export const NFGENMSG_BYTES = 4;

function message(type: number, family: TableFamily, flags: number, attributes: readonly Attribute[]): Request {
  return { type: (NFNL_SUBSYS_NFTABLES << 8) | type, flags, payload: payloadOf(NFPROTO[family], 0, attributes) };
}

/** struct nfgenmsg: family, version 0, resource id in network order. */
function payloadOf(family: number, resource: number, attributes: readonly Attribute[]): Uint8Array {
  const tail = encodeAttributes(attributes);
  const result = new Uint8Array(NFGENMSG_BYTES + tail.length);
  const view = new DataView(result.buffer);
  view.setUint8(0, family);
  view.setUint16(2, resource, false);
  result.set(tail, NFGENMSG_BYTES);
  return result;
}
