/**
 * Where identities, policy and programs of the kernel will meet the endpoints (A§5.8). Until they are there, `NO_SEAMS` stands in:
 * it answers at once and does nothing, and its trait says that builds write no files.
 */

import type { EndpointRecord } from "../../../handover/record.ts";
import type { JsonValue } from "../../../lib/json/value.ts";
import type { Level } from "./levels.ts";

interface IdentitySeam {
  /**
   * At creation, when labels change, and at restore. It keeps trying until the signal is aborted, and never stands in the way of a DEL.
   * @returns `undefined` where there are no identities
   */
  resolve(endpoint: EndpointRecord, labels: JsonValue | undefined, signal: AbortSignal): Promise<number | undefined>;
  /** At removal; bounded, and a failure is only counted. */
  release(endpoint: EndpointRecord): Promise<void>;
}

export interface DatapathSeam {
  /** The lowest level whose builds write files; `undefined`: none does, and no directory is made for them. */
  readonly writesFilesFrom: Level | undefined;
  /** Idempotent. Writes into `nextDir` only, which takes the place of the endpoint's directory when this succeeds. */
  build(endpoint: EndpointRecord, level: Level, nextDir: string | undefined, signal: AbortSignal): Promise<void>;
  /** Idempotent. */
  remove(endpoint: EndpointRecord): Promise<void>;
  /** What it still has of earlier endpoints, so that a restore removes leftovers. */
  liveIds(): Promise<readonly number[]>;
}

interface PolicySeam {
  /** At least 1 after the first build. */
  revision(endpoint: EndpointRecord): number;
}

export interface Seams {
  readonly identity: IdentitySeam;
  readonly datapath: DatapathSeam;
  readonly policy: PolicySeam;
}

export const NO_SEAMS: Seams = {
  identity: { resolve: async () => undefined, release: async () => {} },
  datapath: { writesFilesFrom: undefined, build: async () => {}, remove: async () => {}, liveIds: async () => [] },
  policy: { revision: () => 1 },
};
