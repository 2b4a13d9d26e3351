/** Makes of an error what the API answers (A§2.6): a status, and the object that a plugin may copy to its standard output. */
import { describeError } from "../../lib/cni/error-output.ts";
import { type ErrorWord, TortieError } from "../../lib/errors/errors.ts";
import type { ErrorObject } from "./node.ts";

/** Words whose status is not 500. */
const STATUS: Partial<Readonly<Record<ErrorWord, number>>> = {
  "protocol-unsupported": 400,
  "call-invalid": 400,
  "environment-invalid": 400,
  "environment-missing": 400,
  "access-denied": 403,
  "option-invalid": 400,
  "endpoint-name-invalid": 400,
  "address-outside-pools": 400,
  "operation-unknown": 404,
  "endpoint-unknown": 404,
  "policy-off": 409,
  "policy-unknown": 404,
  "policy-end-unknown": 404,
  "identity-unknown": 404,
  "address-not-assigned": 404,
  "address-excluded": 409,
  "address-taken": 409,
  "endpoint-ambiguous": 409,
  "endpoint-differs": 409,
  "endpoint-immutable": 409,
  "endpoint-removed": 409,
  "owner-conflict": 409,
  "release-mismatch": 409,
  "attachment-deleted": 409,
  "family-disabled": 501,
  "identities-off": 501,
  "addresses-exhausted": 507,
  "endpoint-ids-exhausted": 507,
  "request-too-large": 413,
  "agent-busy": 503,
  "reads-limited": 429,
  "agent-starting": 503,
  "node-cidr-missing": 503,
  "agent-stopping": 503,
};

/** Called again after so long, what a 503 refuses may succeed. */
const RETRY_AFTER_MS = 500;

export interface ErrorAnswer {
  readonly status: number;
  readonly body: ErrorObject;
  readonly headers: Readonly<Record<string, string>>;
}

export function errorAnswer(error: unknown): ErrorAnswer {
  const { code, msg, details, word } = describeError(error);
  const status = (error instanceof TortieError ? STATUS[error.word] : undefined) ?? 500;
  const retry = status === 503 || status === 429 ? RETRY_AFTER_MS : undefined;
  return {
    status,
    body: {
      code,
      word,
      msg,
      details,
      "retry-after-ms": retry,
    },
    headers: retry === undefined ? {} : { "Retry-After": String(Math.ceil(retry / 1000)) },
  };
}
