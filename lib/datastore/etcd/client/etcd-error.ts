/** How a request to etcd ends that did not do what it asked: gRPC's status codes, as the JSON gateway passes them on. */

/** google.rpc.Code of what etcd answers (etcd's api/v3rpc/rpctypes/error.go). 0: no member has answered. */
export const CODES = {
  none: 0,
  invalidArgument: 3,
  deadlineExceeded: 4,
  permissionDenied: 7,
  resourceExhausted: 8,
  failedPrecondition: 9,
  outOfRange: 11,
  unavailable: 14,
  unauthenticated: 16,
} as const;

export interface EtcdErrorFacts {
  readonly code: number;
  /** An answer was lost, of this try or of an earlier one: a write may have been carried out. */
  readonly isRepetition: boolean;
}

/** `message` names the member and the request, and holds nothing secret. There is no cause: a log shows causes as they came. */
export class EtcdError extends Error {
  readonly code: number;
  readonly isRepetition: boolean;

  constructor(message: string, { code, isRepetition }: EtcdErrorFacts) {
    super(message);
    this.name = "EtcdError";
    this.code = code;
    this.isRepetition = isRepetition;
  }
}

/** What a member said instead of an answer. */
export interface Refusal {
  readonly code: number;
  readonly message: string;
}

/** etcd's words for a backend that has reached its quota; the alarm stays until an operator disarms it. */
const FULL = "database space exceeded";
/** The member asked is without a leader, or lost it, or is too busy: another one, or the same one later, may answer. */
const PASSING: readonly number[] = [CODES.unavailable, CODES.deadlineExceeded];

export function isFull({ message }: Refusal): boolean {
  return message.includes(FULL);
}

/** The request or its answer is over a limit of gRPC's (--max-request-bytes), which no other member and no later time changes. */
export function isTooLarge({ code, message }: Refusal): boolean {
  return code === CODES.resourceExhausted && message.includes("message larger than max");
}

export function isPassing(refusal: Refusal): boolean {
  return PASSING.includes(refusal.code) || (refusal.code === CODES.resourceExhausted && !isFull(refusal) && !isTooLarge(refusal));
}

/** The token is unknown (members forget them), or was made before the users were changed, or is missing. */
export function wantsNewToken({ code, message }: Refusal): boolean {
  return code === CODES.unauthenticated || /user name is empty|revision of auth store is old/.test(message);
}

export function isCompacted(error: unknown): boolean {
  return error instanceof EtcdError && error.code === CODES.outOfRange && error.message.includes("has been compacted");
}
