/**
 * Reads and writes `<state>/node.json`: what the agent has found out about this node's ranges, so that direct-mode plugins and the agent's
 * next start know it without a cluster (A§0.2, A§1.3, A§11.6).
 */
import {
  type Address,
  type Family,
  formatAddress,
  formatPrefix,
  type Prefix,
  parseAddress,
  parsePrefix,
} from "../../lib/addresses/address.ts";
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { type Fields, field, has, isNumber, isObject, isText, listOf, oneOf, parseObject, section } from "../../lib/json/decode.ts";
import { systemErrorCode } from "../../lib/system/errno.ts";
import { readText } from "../../lib/system/files.ts";
import type { Exclusion, NodeRanges } from "./host-scope.ts";
import { hostRange, STRATEGIES, type Strategy } from "./range.ts";

export const SOURCES = ["flag", "spec", "annotation", "automatic"] as const;
/** Says where a range is from (A§1.2). */
export type RangeSource = (typeof SOURCES)[number];

/** Says what one family has on this node. */
export interface FamilyRecord {
  readonly cidr: Prefix;
  readonly source: RangeSource;
  /** Belongs to the agent itself: gateway of the pods with link form `endpoint`. */
  readonly router?: Address;
  /** Belongs to the agent itself: target of health probes. */
  readonly health?: Address;
}

export interface NodeRecord {
  readonly node: string;
  /** Identifies the kernel that runs: grants do not outlive it. */
  readonly bootId: string;
  readonly ipv4?: FamilyRecord;
  readonly ipv6?: FamilyRecord;
  readonly exclusions: readonly Exclusion[];
  readonly strategy: Strategy;
  readonly cooldownMs: number;
}

const FORMAT = 1;

export function familyOf(record: Pick<NodeRecord, "ipv4" | "ipv6">, family: Family): FamilyRecord | undefined {
  return family === 4 ? record.ipv4 : record.ipv6;
}

/** @throws TortieError `node-cidr-missing` when no family has a range */
export function rangesOf(record: NodeRecord): NodeRanges {
  const ranges = [record.ipv4, record.ipv6].flatMap((one) => (one === undefined ? [] : [hostRange(one.cidr)]));
  if (ranges.length === 0) throw new TortieError("node-cidr-missing", `node ${record.node} has no range of addresses`);
  return { ranges, exclusions: record.exclusions };
}

/** Lists the agent's own addresses that are the pods' gateways. @throws TortieError `node-cidr-missing` without any */
export function routersOf(path: string): readonly Address[] {
  const record = readNodeRecord(path);
  const routers = [record?.ipv4, record?.ipv6].flatMap((one) => (one?.router === undefined ? [] : [one.router]));
  if (routers.length > 0) return routers;
  throw new TortieError("node-cidr-missing", `${path} names no router address of this node, which links of form endpoint need`);
}

export function encodeNodeRecord({ node, bootId, ipv4, ipv6, exclusions, strategy, cooldownMs }: NodeRecord): string {
  const record = {
    format: FORMAT,
    node,
    "boot-id": bootId,
    ipv4: ipv4 && encodeFamily(ipv4),
    ipv6: ipv6 && encodeFamily(ipv6),
    exclusions: exclusions.map(({ prefix, reason }) => ({ cidr: formatPrefix(prefix), reason })),
    strategy,
    "cooldown-ms": cooldownMs,
  };
  return `${JSON.stringify(record)}\n`;
}

/** @returns `undefined` before the first record @throws TortieError `node-cidr-missing` for a file that cannot be read */
export function readNodeRecord(path: string): NodeRecord | undefined {
  try {
    return decodeNodeRecord(readText(path));
  } catch (error) {
    if (systemErrorCode(error) === "ENOENT") return undefined;
    throw new TortieError("node-cidr-missing", `${path} cannot be read: ${messageOf(error)}`, { cause: error });
  }
}

/** @throws Error naming what is wrong */
function decodeNodeRecord(text: string): NodeRecord {
  const found = parseObject(text);
  const format = field(found, "format", isNumber);
  if (format !== FORMAT) throw new Error(`format ${format} is not ${FORMAT}: another version of Tortie wrote it`);
  return {
    node: field(found, "node", isText),
    bootId: field(found, "boot-id", isText),
    ipv4: has(found, "ipv4") ? decodeFamily(section(found, "ipv4")) : undefined,
    ipv6: has(found, "ipv6") ? decodeFamily(section(found, "ipv6")) : undefined,
    exclusions: field(found, "exclusions", listOf(isObject)).map((one) => ({
      prefix: prefixOf(one, "cidr"),
      reason: field(one, "reason", isText),
    })),
    strategy: field(found, "strategy", oneOf(...STRATEGIES)),
    cooldownMs: field(found, "cooldown-ms", isNumber),
  };
}

function encodeFamily({ cidr, source, router, health }: FamilyRecord): Fields {
  return { cidr: formatPrefix(cidr), source, router: router && formatAddress(router), health: health && formatAddress(health) };
}

function decodeFamily(found: Fields): FamilyRecord {
  return {
    cidr: prefixOf(found, "cidr"),
    source: field(found, "source", oneOf(...SOURCES)),
    router: has(found, "router") ? addressIn(found, "router") : undefined,
    health: has(found, "health") ? addressIn(found, "health") : undefined,
  };
}

function prefixOf(found: Fields, name: string): Prefix {
  const prefix = parsePrefix(field(found, name, isText));
  if (prefix === undefined) throw new Error(`${name} is no CIDR`);
  return prefix;
}

function addressIn(found: Fields, name: string): Address {
  const address = parseAddress(field(found, name, isText));
  if (address === undefined) throw new Error(`${name} is no address`);
  return address;
}
