/** HTTP statuses of the errors of IPAM over the API (A§2.5). */
import type { ErrorWord } from "../../lib/errors/errors.ts";

export const IPAM_STATUSES = {
  "call-invalid": 400,
  "address-outside-pools": 400,
  "address-not-assigned": 404,
  "address-taken": 409,
  "address-excluded": 409,
  "release-mismatch": 409,
  "family-disabled": 501,
  "node-cidr-missing": 503,
  "addresses-exhausted": 507,
} as const satisfies Partial<Readonly<Record<ErrorWord, number>>>;
