/** How many blocks of a family a node may have. */
import type { IpamConfiguration } from "../../lib/datastore/resources.ts";

/** `maxBlocksPerHost` 0 means this (I§2.6). */
const DEFAULT_BLOCK_LIMIT = 20;

/** The smaller of the two that are set (I§3.4). */
export function effectiveLimit({ maxBlocksPerHost }: IpamConfiguration, blockLimit: number): number {
  const limits = [maxBlocksPerHost, blockLimit].filter((limit) => limit > 0);
  return limits.length > 0 ? Math.min(...limits) : DEFAULT_BLOCK_LIMIT;
}
