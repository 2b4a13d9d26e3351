/** How long, and how many at once, the client of etcd's gateway tries. All in milliseconds but `connections`. */
import { DEFAULT_LIMITS } from "../../../kubernetes/client/limits.ts";

export interface EtcdLimits {
  /** One request with its repetitions. */
  readonly request: number;
  /** One try where there is but one member. */
  readonly try: number;
  /** The first try where another member can be asked; doubled with every further one. */
  readonly firstTry: number;
  /** Connecting to members that all refuse: one that is restarted takes seconds. */
  readonly refused: number;
  /** What failed tries may cost all requests of this client together. */
  readonly patience: number;
  /** The least that a request is given, however little patience is left. */
  readonly least: number;
  readonly firstPause: number;
  readonly longestPause: number;
  /** Requests under way together, each over a connection of its own; further ones wait in line. */
  readonly connections: number;
}

/** More than the requests that one operation makes together; an agent that has a burst of them shares the members with other nodes. */
const CONNECTIONS = 16;

export const ETCD_LIMITS: EtcdLimits = { ...DEFAULT_LIMITS, firstTry: 2_000, refused: 5_000, firstPause: 50, connections: CONNECTIONS };
