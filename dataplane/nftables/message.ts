/** Speaks nf_tables over nfnetlink: the few objects that one table of ours is made of (include/uapi/linux/netfilter/nf_tables.h, nfnetlink.h). */
import {
  type Attribute,
  attributeMap,
  bytes,
  type Message,
  NLM_F_ACK,
  NLM_F_APPEND,
  NLM_F_CREATE,
  nest,
  parseStructure,
  readText,
  readU32be,
  structure,
  text,
  u32be,
} from "../netlink/message.ts";
import type { Request } from "../netlink/socket.ts";

const NFNL_SUBSYS_NFTABLES = 10;
const NFNL_MSG_BATCH_BEGIN = 16;
const NFNL_MSG_BATCH_END = 17;

/** Has the numbers of the messages about each kind of object, and of the attributes that name its table and itself. */
const KINDS = {
  table: { new: 0, get: 1, delete: 2, names: [1] },
  chain: { new: 3, get: 4, delete: 5, names: [1, 3] },
  /** Named by its chain: it has no name of its own. */
  rule: { new: 6, get: 7, delete: 8, names: [1, 2] },
  set: { new: 9, get: 10, delete: 11, names: [1, 2] },
  /** Named by its set. */
  element: { new: 12, get: 13, delete: 14, names: [1, 2] },
  /** A named counter and the like. */
  object: { new: 18, get: 19, delete: 20, names: [1, 2] },
} as const;
const NFT_MSG_GETGEN = 16;
/** include/uapi/linux/netfilter/nfnetlink.h */
const NFNL_BATCH_GENID = 1;
const NFTA_GEN_ID = 1;

/** include/uapi/linux/netfilter.h */
const NFPROTO = { inet: 1, ip: 2, ip6: 10 } as const;
export type TableFamily = keyof typeof NFPROTO;

const NFTA_LIST_ELEM = 1;
export const NFTA_TABLE_USERDATA = 6;
const NFTA_CHAIN_TABLE = 1;
const NFTA_CHAIN_NAME = 3;
const NFTA_CHAIN_HOOK = 4;
const NFTA_CHAIN_POLICY = 5;
const NFTA_CHAIN_TYPE = 7;
const NFTA_HOOK_HOOKNUM = 1;
const NFTA_HOOK_PRIORITY = 2;
const NF_ACCEPT = 1;
const NFTA_SET_FLAGS = 3;
const NFTA_SET_KEY_TYPE = 4;
const NFTA_SET_KEY_LEN = 5;
const NFTA_SET_ID = 10;
const NFT_SET_INTERVAL = 4;
const NFTA_SET_ELEM_LIST_ELEMENTS = 3;
const NFTA_SET_ELEM_KEY = 1;
const NFTA_SET_ELEM_FLAGS = 3;
const NFT_SET_ELEM_INTERVAL_END = 1;
const NFTA_DATA_VALUE = 1;
const NFTA_RULE_EXPRESSIONS = 4;
const NFTA_EXPR_NAME = 1;
const NFTA_EXPR_DATA = 2;

/** Describes one step of a rule: its name in the kernel and its parameters. */
export interface Expression {
  readonly name: string;
  readonly parameters: readonly Attribute[];
}

/** Describes an edge of an interval: the first address that belongs to it, or the first that does not any more. */
export interface Edge {
  readonly key: Uint8Array;
  readonly isEnd: boolean;
}

/**
 * Makes one transaction of requests: the kernel carries out all of them or none (net/netfilter/nfnetlink.c, nfnetlink_rcv_batch).
 * @param generation what `generationOf` read: the kernel answers ERESTART when anything in nftables has changed since (nf_tables_valid_genid)
 */
export function transaction(requests: readonly Request[], generation?: number): Request[] {
  return bracketed(requests.map(acknowledged), generation);
}

/**
 * Makes one transaction of many requests, of which only the last is acknowledged: the kernel reports refusals of the others by itself, and
 * thousands of acknowledgements would not fit into the socket's buffer. Only new kernels acknowledge the end of a batch.
 */
export function longTransaction(requests: readonly Request[], generation?: number): Request[] {
  return bracketed([...requests.slice(0, -1), ...requests.slice(-1).map(acknowledged)], generation);
}

function acknowledged(request: Request): Request {
  return { ...request, flags: (request.flags ?? 0) | NLM_F_ACK };
}

function bracketed(inner: readonly Request[], generation: number | undefined): Request[] {
  const bracket = (type: number, attributes: readonly Attribute[] = []): Request => ({
    type,
    payload: payloadOf(0, NFNL_SUBSYS_NFTABLES, attributes),
  });
  const condition = generation === undefined ? [] : [u32be(NFNL_BATCH_GENID, generation)];
  return [bracket(NFNL_MSG_BATCH_BEGIN, condition), ...inner, bracket(NFNL_MSG_BATCH_END)];
}

/** Asks for the number that each change of nftables in this namespace raises. */
export function getGeneration(): Request {
  return message(NFT_MSG_GETGEN, "inet", 0, []);
}

export function parseGeneration(answer: Message): number | undefined {
  return readU32be(attributesOf(answer).get(NFTA_GEN_ID));
}

/** Asks for one object by its table and its name; in a dump, for all of a table, or of all tables. */
export function ask(kind: keyof typeof KINDS, family: TableFamily, ...names: readonly string[]): Request {
  return about("get", kind, family, names);
}

/** Deletes what is there: a table with everything in it, every rule of a chain, an empty chain that no rule leads to, a set that no rule uses. */
export function remove(kind: "table" | "chain" | "rule" | "set", family: TableFamily, ...names: readonly string[]): Request {
  return about("delete", kind, family, names);
}

/** Creates the table if it is not there. `userData` is kept only by a table that this request creates. */
export function newTable(family: TableFamily, name: string, userData?: Uint8Array): Request {
  const data = userData === undefined ? [] : [bytes(NFTA_TABLE_USERDATA, userData)];
  return about("new", "table", family, [name], data);
}

/** Deletes a table, there or not: created first, so that the deletion cannot fail, all in the same transaction. */
export function emptying(family: TableFamily, name: string): Request[] {
  return [newTable(family, name), remove("table", family, name)];
}

/** Describes a chain that packets come to by themselves, at a hook. */
export interface BaseChain {
  readonly name: string;
  readonly type: "filter" | "nat";
  readonly hook: number;
  readonly priority: number;
}

export function newChain(family: TableFamily, table: string, { name, type, hook, priority }: BaseChain): Request {
  return about(
    "new",
    "chain",
    family,
    [table, name],
    [
      nest(NFTA_CHAIN_HOOK, [u32be(NFTA_HOOK_HOOKNUM, hook), u32be(NFTA_HOOK_PRIORITY, priority)]),
      u32be(NFTA_CHAIN_POLICY, NF_ACCEPT),
      text(NFTA_CHAIN_TYPE, type),
    ],
  );
}

/** Makes a chain that packets come to from other chains only. */
export function newPlainChain(family: TableFamily, table: string, name: string): Request {
  return about("new", "chain", family, [table, name]);
}

/** Reads the name of a chain in a dump, in any table. */
export function chainName(chain: Message): string | undefined {
  return readText(attributesOf(chain).get(NFTA_CHAIN_NAME));
}

/** A chain as the kernel lists it. */
export interface ListedChain {
  readonly table: string;
  readonly name: string;
  /** `undefined`: packets come from other chains only. */
  readonly hook: (Omit<BaseChain, "name"> & { readonly accepts: boolean }) | undefined;
}

/** Reads a chain of a dump, in any table. */
export function parseChain(chain: Message): ListedChain {
  const attributes = attributesOf(chain);
  const hook = attributes.get(NFTA_CHAIN_HOOK);
  return {
    table: readText(attributes.get(NFTA_CHAIN_TABLE)) ?? "",
    name: readText(attributes.get(NFTA_CHAIN_NAME)) ?? "",
    hook: hook && hookOf(attributes, attributeMap(hook)),
  };
}

function hookOf(chain: ReadonlyMap<number, Uint8Array>, hook: ReadonlyMap<number, Uint8Array>): ListedChain["hook"] {
  return {
    type: readText(chain.get(NFTA_CHAIN_TYPE)) === "filter" ? "filter" : "nat",
    hook: readU32be(hook.get(NFTA_HOOK_HOOKNUM)) ?? 0,
    // Is signed.
    priority: (readU32be(hook.get(NFTA_HOOK_PRIORITY)) ?? 0) | 0,
    accepts: readU32be(chain.get(NFTA_CHAIN_POLICY)) === NF_ACCEPT,
  };
}

/** Reads the name of a chain or set in a dump; `undefined` for one of another table. */
export function nameWithin(kind: "chain" | "set" | "object", family: TableFamily, table: string, found: Message): string | undefined {
  const [ofTable, own] = KINDS[kind].names;
  const attributes = attributesOf(found);
  if (found.payload[0] !== NFPROTO[family] || readText(attributes.get(ofTable)) !== table) return undefined;
  return readText(attributes.get(own));
}

/**
 * Makes a set of intervals of addresses.
 * @param keyType what `nft` calls the type of the key, as a number of its own: 7 for ipv4_addr, 8 for ipv6_addr
 */
export function newIntervalSet(family: TableFamily, table: string, name: string, keyType: number, keyLength: number): Request {
  return about(
    "new",
    "set",
    family,
    [table, name],
    [
      u32be(NFTA_SET_FLAGS, NFT_SET_INTERVAL),
      u32be(NFTA_SET_KEY_TYPE, keyType),
      u32be(NFTA_SET_KEY_LEN, keyLength),
      // Required, although all of ours are found by their names.
      u32be(NFTA_SET_ID, 1),
    ],
  );
}

export function newElements(family: TableFamily, table: string, set: string, edges: readonly Edge[]): Request {
  const elements = edges.map(({ key, isEnd }) =>
    nest(NFTA_LIST_ELEM, [
      nest(NFTA_SET_ELEM_KEY, [bytes(NFTA_DATA_VALUE, key)]),
      ...(isEnd ? [u32be(NFTA_SET_ELEM_FLAGS, NFT_SET_ELEM_INTERVAL_END)] : []),
    ]),
  );
  return about("new", "element", family, [table, set], [nest(NFTA_SET_ELEM_LIST_ELEMENTS, elements)]);
}

/** Appends a rule to a chain. */
export function newRule(family: TableFamily, table: string, chain: string, expressions: readonly Expression[]): Request {
  const list = expressions.map(({ name, parameters }) =>
    nest(NFTA_LIST_ELEM, [text(NFTA_EXPR_NAME, name), nest(NFTA_EXPR_DATA, parameters)]),
  );
  return about("new", "rule", family, [table, chain], [nest(NFTA_RULE_EXPRESSIONS, list)], NLM_F_CREATE | NLM_F_APPEND);
}

/** Is the length of struct nfgenmsg, which is before the attributes. */
export const NFGENMSG_BYTES = 4;

/** Reads the attributes of an object of a dump, or of an answer. */
export function attributesOf(message: Message): ReadonlyMap<number, Uint8Array> {
  return parseStructure(message, NFGENMSG_BYTES).attributes;
}

/** Makes a request about an object, named by its table and itself. */
export function about(
  action: "new" | "get" | "delete",
  kind: keyof typeof KINDS,
  family: TableFamily,
  names: readonly string[],
  attributes: readonly Attribute[] = [],
  flags = action === "new" ? NLM_F_CREATE : 0,
): Request {
  const named = KINDS[kind].names.slice(0, names.length).map((attribute, at) => text(attribute, names[at] ?? ""));
  return message(KINDS[kind][action], family, flags, [...named, ...attributes]);
}

function message(type: number, family: TableFamily, flags: number, attributes: readonly Attribute[]): Request {
  return { type: (NFNL_SUBSYS_NFTABLES << 8) | type, flags, payload: payloadOf(NFPROTO[family], 0, attributes) };
}

/** Writes struct nfgenmsg: family, version 0, resource id in network order. */
function payloadOf(family: number, resource: number, attributes: readonly Attribute[]): Uint8Array {
  const fill = (view: DataView) => {
    view.setUint8(0, family);
    view.setUint16(2, resource, false);
  };
  return structure(NFGENMSG_BYTES, fill, attributes);
}
