/** Counts dropped packets by direction and reason, in named counters of the table. */
import { type Attribute, attributeMap, nest, readU32be, readU64be, u32be } from "../../netlink/message.ts";
import type { Netlink, Request } from "../../netlink/socket.ts";
import type { Direction } from "../../packet-policy.ts";
import { about, ask, attributesOf, nameWithin, type TableFamily } from "../message.ts";
import { names, POLICY_TABLE } from "./layout.ts";
import { DIRECTIONS, DROP_REASONS, type DropKind } from "./log-prefix.ts";

const NFTA_OBJ_TYPE = 3;
const NFTA_OBJ_DATA = 4;
const NFT_OBJECT_COUNTER = 1;
const NFTA_COUNTER_BYTES = 1;
const NFTA_COUNTER_PACKETS = 2;

/** What was dropped since the counter was made. */
export interface DropCount extends DropKind {
  readonly packets: bigint;
  readonly bytes: bigint;
}

export function newCounter(family: TableFamily, table: string, name: string): Request {
  // The data is required, and empty here: it begins at zero.
  const data: Attribute[] = [u32be(NFTA_OBJ_TYPE, NFT_OBJECT_COUNTER), nest(NFTA_OBJ_DATA, [])];
  return about("new", "object", family, [table, name], data);
}

export function removeCounter(family: TableFamily, table: string, name: string): Request {
  return about("delete", "object", family, [table, name], [u32be(NFTA_OBJ_TYPE, NFT_OBJECT_COUNTER)]);
}

/** Reads the names of all counters of the table. */
export function counterNames(socket: Netlink): string[] {
  return [...countersIn(socket).keys()];
}

/** Reads all counters; none where there is no table. @throws NetlinkError */
export function readCounters(socket: Netlink): DropCount[] {
  const counters = countersIn(socket);
  return DIRECTIONS.flatMap((direction) =>
    DROP_REASONS.flatMap((reason) => {
      const count = counters.get(names.dropping(direction, reason));
      return count === undefined ? [] : [{ direction, reason, ...count }];
    }),
  );
}

/** What has begun a connection of an enforced endpoint, or tried to, since the counter was made. */
export interface JudgedCount {
  readonly direction: Direction;
  readonly packets: bigint;
}

/** Reads how much was judged; nothing where there is no table. @throws NetlinkError */
export function readJudged(socket: Netlink): JudgedCount[] {
  const counters = countersIn(socket);
  return DIRECTIONS.flatMap((direction) => {
    const count = counters.get(names.judged(direction));
    return count === undefined ? [] : [{ direction, packets: count.packets }];
  });
}

type Count = Pick<DropCount, "packets" | "bytes">;

function countersIn(socket: Netlink): ReadonlyMap<string, Count> {
  const found = new Map<string, Count>();
  for (const message of socket.dump(ask("object", "inet", POLICY_TABLE))) {
    const name = nameWithin("object", "inet", POLICY_TABLE, message);
    const attributes = attributesOf(message);
    if (name === undefined || readU32be(attributes.get(NFTA_OBJ_TYPE)) !== NFT_OBJECT_COUNTER) continue;
    found.set(name, countIn(attributes.get(NFTA_OBJ_DATA)));
  }
  return found;
}

function countIn(nested: Uint8Array = new Uint8Array()): Count {
  const data = attributeMap(nested);
  return { packets: readU64be(data.get(NFTA_COUNTER_PACKETS)) ?? 0n, bytes: readU64be(data.get(NFTA_COUNTER_BYTES)) ?? 0n };
}
