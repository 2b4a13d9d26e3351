/** Speaks ctnetlink: the connections that conntrack knows (include/uapi/linux/netfilter/nfnetlink_conntrack.h). */
import type { Address, Family } from "../../lib/addresses/address.ts";
import {
  type Attribute,
  addressOf,
  attributeMap,
  bytes,
  familyOf,
  type Message,
  NLA_F_NESTED,
  numberOf,
  parseStructure,
  structure,
} from "../netlink/message.ts";
import type { Request } from "../netlink/socket.ts";

const NFNL_SUBSYS_CTNETLINK = 1;
const IPCTNL_MSG_CT_GET = 1;
const IPCTNL_MSG_CT_DELETE = 2;
const NFGENMSG_BYTES = 4;
const AF_UNSPEC = 0;

const CTA_TUPLE_ORIG = 1;
const CTA_TUPLE_REPLY = 2;
const CTA_ID = 12;
const CTA_ZONE = 18;
const CTA_TUPLE_IP = 1;
const CTA_TUPLE_PROTO = 2;
const CTA_IP_SOURCE = { 4: 1, 6: 3 } as const;
const CTA_IP_DESTINATION = { 4: 2, 6: 4 } as const;
const CTA_PROTO_NUM = 1;
const CTA_PROTO_SRC_PORT = 2;
const CTA_PROTO_DST_PORT = 3;

/** One direction of a connection. A protocol without ports has none. */
export interface Tuple {
  readonly source: Address;
  readonly destination: Address;
  readonly sourcePort: number | undefined;
  readonly destinationPort: number | undefined;
}

/** A connection that conntrack follows. Where an address is translated, the reply is not the original the other way round. */
export interface TrackedFlow {
  readonly family: Family;
  /** IP protocol number. */
  readonly protocol: number;
  /** As its first packet was, before any translation. */
  readonly original: Tuple;
  /** As its answers come. */
  readonly reply: Tuple;
  /** Names it in a request. */
  readonly key: readonly Attribute[];
}

/** Asks for all connections of both families, in a dump. */
export function askForFlows(): Request {
  return request(IPCTNL_MSG_CT_GET, AF_UNSPEC, []);
}

/** Deletes this connection, and not a later one with the same addresses and ports. */
export function deleteFlow({ family, key }: TrackedFlow): Request {
  return request(IPCTNL_MSG_CT_DELETE, numberOf(family), key);
}

/**
 * Reads a connection of a dump.
 * @param isWanted is asked with the addresses, before the rest is read
 * @returns `undefined` for one that is not wanted, or that is of another family
 */
export function parseFlow(message: Message, isWanted: (addresses: readonly Uint8Array[]) => boolean): TrackedFlow | undefined {
  const { view, attributes } = parseStructure(message, NFGENMSG_BYTES);
  const family = familyOf(view.getUint8(0));
  if (family === undefined) return undefined;
  const original = tupleIn(family, attributes.get(CTA_TUPLE_ORIG));
  const reply = tupleIn(family, attributes.get(CTA_TUPLE_REPLY));
  if (original === undefined || reply === undefined) return undefined;
  if (!isWanted([original.source, original.destination, reply.source, reply.destination])) return undefined;
  const key = [CTA_TUPLE_ORIG, CTA_ZONE, CTA_ID].flatMap((type) => {
    const value = attributes.get(type);
    return value === undefined ? [] : [bytes(type === CTA_TUPLE_ORIG ? type | NLA_F_NESTED : type, value)];
  });
  return {
    family,
    protocol: original.protocol,
    original: withAddresses(family, original),
    reply: withAddresses(family, reply),
    key,
  };
}

interface RawTuple extends Pick<Tuple, "sourcePort" | "destinationPort"> {
  readonly source: Uint8Array;
  readonly destination: Uint8Array;
  readonly protocol: number;
}

function tupleIn(family: Family, nested: Uint8Array | undefined): RawTuple | undefined {
  if (nested === undefined) return undefined;
  const tuple = attributeMap(nested);
  const addresses = attributeMap(tuple.get(CTA_TUPLE_IP) ?? new Uint8Array());
  const protocol = attributeMap(tuple.get(CTA_TUPLE_PROTO) ?? new Uint8Array());
  const source = addresses.get(CTA_IP_SOURCE[family]);
  const destination = addresses.get(CTA_IP_DESTINATION[family]);
  if (source === undefined || destination === undefined) return undefined;
  return {
    source,
    destination,
    protocol: protocol.get(CTA_PROTO_NUM)?.[0] ?? 0,
    sourcePort: portIn(protocol.get(CTA_PROTO_SRC_PORT)),
    destinationPort: portIn(protocol.get(CTA_PROTO_DST_PORT)),
  };
}

function portIn(value: Uint8Array | undefined): number | undefined {
  return value === undefined ? undefined : (value[0] ?? 0) * 256 + (value[1] ?? 0);
}

function withAddresses(family: Family, { source, destination, sourcePort, destinationPort }: RawTuple): Tuple {
  return { source: addressOf(family, source), destination: addressOf(family, destination), sourcePort, destinationPort };
}

/** @param family as struct nfgenmsg has it */
function request(type: number, family: number, attributes: readonly Attribute[]): Request {
  const payload = structure(NFGENMSG_BYTES, (view) => view.setUint8(0, family), attributes);
  return { type: (NFNL_SUBSYS_CTNETLINK << 8) | type, payload };
}
