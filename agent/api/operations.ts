/**
 * Lists every operation of the API (A§2.3), once: the server's routes, the OpenAPI document, the typed client and docs/reference/api.md
 * come from here.
 */
import { ENDPOINT_OPERATIONS } from "./endpoint-schema.ts";
import { HISTORY_OPERATIONS } from "./history.ts";
import { IDENTITY_OPERATIONS } from "./identity.ts";
import { IPAM_OPERATIONS } from "./ipam.ts";
import { ErrorObject, NODE_OPERATIONS } from "./node.ts";
import { type HandlersOf, ref } from "./operation.ts";
import { POLICY_OPERATIONS } from "./policy-schema.ts";

export const OPERATIONS = {
  ...NODE_OPERATIONS,
  ...ENDPOINT_OPERATIONS,
  ...HISTORY_OPERATIONS,
  ...IDENTITY_OPERATIONS,
  ...IPAM_OPERATIONS,
  ...POLICY_OPERATIONS,
} as const;

export type OperationName = keyof typeof OPERATIONS;
export type Handlers = HandlersOf<typeof OPERATIONS>;
export const OPERATION_NAMES = Object.keys(OPERATIONS) as readonly OperationName[];

export const ERROR_ANSWER = ref(ErrorObject);
export const BASE_PATH = "/v1";
