/** Shows what the ranges of a node look like: figures of each, and every grant (A§4.6). */
import { type Family, formatAddress } from "../../lib/addresses/address.ts";
import { ownerKey } from "./grant-directory.ts";
import type { Holding } from "./grant-files.ts";
import type { HostScope } from "./host-scope.ts";
import { formatRange, type HostRange, intervalAt, offsetOf } from "./range.ts";

interface RangeFigures {
  readonly family: Family;
  readonly cidr: string;
  readonly size: number;
  readonly used: number;
  readonly free: number;
  /** Free, and given only when nothing else is. */
  readonly cooling: number;
  readonly excluded: number;
}

export interface GrantRow {
  readonly family: Family;
  readonly address: string;
  /** Empty when the file cannot be read. */
  readonly owner: string;
  readonly pod?: string;
  readonly endpoint?: number;
  /** Milliseconds since 1970, as the next. */
  readonly grantedAtMs?: number;
  readonly expiresAtMs?: number;
  /** Outside the node's present range: it is released with its owner and never given out again (A§1.8). */
  readonly isForeign: boolean;
}

export interface HostScopeDump {
  readonly ranges: readonly RangeFigures[];
  readonly foreign: number;
  readonly grants: readonly GrantRow[];
}

/** @throws TortieError `node-cidr-missing` */
export async function dumpOf(hostScope: HostScope): Promise<HostScopeDump> {
  const { ranges } = hostScope.ranges();
  const grants = (await hostScope.holdings()).map((holding) => rowOf(holding, ranges));
  const figures: RangeFigures[] = [];
  for (const range of ranges) figures.push(await figuresOf(range, hostScope));
  return { ranges: figures, foreign: grants.filter(({ isForeign }) => isForeign).length, grants };
}

async function figuresOf(range: HostRange, hostScope: HostScope): Promise<RangeFigures> {
  const { taken, excluded, cooling, size } = await hostScope.occupancy(range);
  const barred = excluded.reduce((sum, { start, end }) => sum + end - start, 0);
  const takenOfBarred = excluded.reduce((sum, { start, end }) => sum + countWithin(taken, start, end), 0);
  const coolingNow = [...cooling.keys()].filter((offset) => !taken.has(offset) && intervalAt(excluded, offset) === undefined).length;
  return {
    family: range.family,
    cidr: formatRange(range),
    size,
    used: taken.count,
    free: size - taken.count - (barred - takenOfBarred),
    cooling: coolingNow,
    excluded: barred,
  };
}

function countWithin(taken: { has(offset: number): boolean; readonly count: number }, start: number, end: number): number {
  let count = 0;
  for (let offset = start; offset < end && count < taken.count; offset++) if (taken.has(offset)) count += 1;
  return count;
}

function rowOf({ address, grant }: Holding, ranges: readonly HostRange[]): GrantRow {
  const { family } = address;
  const isForeign = ranges.every((range) => offsetOf(range, address) === undefined);
  if (grant === undefined) return { family, address: formatAddress(address), owner: "", isForeign };
  const { owner, endpoint, grantedAtMs, expiresAtMs } = grant;
  return {
    family,
    address: formatAddress(address),
    owner: ownerKey(owner),
    ...(owner.kind === "attachment" && owner.pod !== undefined ? { pod: owner.pod } : {}),
    ...(endpoint === undefined ? {} : { endpoint }),
    grantedAtMs,
    ...(expiresAtMs === undefined ? {} : { expiresAtMs }),
    isForeign,
  };
}
