/** How long and how often the client tries. All in milliseconds but `repetitions` and `connections`. */

export interface ClientLimits {
  /** One request with its repetitions. */
  readonly request: number;
  /** One try, connecting included. */
  readonly try: number;
  /** Trying to connect to a server that refuses. Calico gives up at once; a server that is restarted takes seconds. */
  readonly refused: number;
  /** What failed tries and pauses may cost all requests of this client together (patience.ts). */
  readonly patience: number;
  /** The least that a request is given, however little patience is left. */
  readonly least: number;
  readonly repetitions: number;
  /** Connections at one time: so many requests may be under way together. */
  readonly connections: number;
  /** Before the first repetition; doubled before every further one. */
  readonly firstPause: number;
  readonly longestPause: number;
  /** The longest Retry-After that is waited for. */
  readonly retryAfter: number;
}

export const DEFAULT_LIMITS: ClientLimits = {
  request: 30_000,
  try: 15_000,
  refused: 1_800,
  patience: 60_000,
  least: 5_000,
  repetitions: 10,
  connections: 1,
  firstPause: 100,
  longestPause: 2_000,
  retryAfter: 10_000,
};
