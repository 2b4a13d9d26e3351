/**
 * Names why a packet was dropped, in the words that the kernel gives along with it: the prefix of an NFLOG message, such as
 * "tortie-policy ingress denied". Whoever reads the messages takes direction and reason from there.
 */
import type { Direction } from "../../packet-policy.ts";

/**
 * - `denied`: no policy allows it
 * - `invalid`: conntrack cannot tell which connection it belongs to (also a wrong checksum, where the kernel checks it)
 * - `tcp-without-syn`: it begins a TCP connection, as far as conntrack knows, but is no SYN
 * - `endpoint-unknown`: its host end is one of ours, but nobody has said what it may do
 */
export const DROP_REASONS = ["denied", "invalid", "tcp-without-syn", "endpoint-unknown"] as const;
export type DropReason = (typeof DROP_REASONS)[number];

export const DIRECTIONS: readonly Direction[] = ["ingress", "egress"];

/** Says of which packets the kernel tells: those that an endpoint may not receive, or may not send. */
export interface DropKind {
  readonly direction: Direction;
  readonly reason: DropReason;
}

const START = "tortie-policy";
const KINDS: ReadonlyMap<string, DropKind> = new Map(
  DIRECTIONS.flatMap((direction) => DROP_REASONS.map((reason) => [logPrefix(direction, reason), { direction, reason }] as const)),
);

/** Bytes of a packet that a message has: enough for the headers of both families, with options. */
export const LOGGED_BYTES = 128;

export function logPrefix(direction: Direction, reason: DropReason): string {
  return `${START} ${direction} ${reason}`;
}

/** Reads a prefix; `undefined` for one of somebody else. */
export function parseLogPrefix(prefix: string): DropKind | undefined {
  return KINDS.get(prefix);
}
