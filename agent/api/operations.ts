/**
 * Every operation of the API (A§2.3), once: the server's routes, the OpenAPI document, the typed client and docs/reference/api.md come from here.
 */
import { CNI_OPERATIONS } from "./cni-operations.ts";
import { ENDPOINT_OPERATIONS } from "./endpoint-operations.ts";
import { IPAM_OPERATIONS } from "./ipam-operations.ts";
import { ref } from "./model.ts";
import { ErrorObject } from "./models.ts";
import { NODE_OPERATIONS } from "./node-operations.ts";
import type { Operation } from "./operation.ts";

export const OPERATIONS = {
  ...NODE_OPERATIONS,
  ...CNI_OPERATIONS,
  ...ENDPOINT_OPERATIONS,
  ...IPAM_OPERATIONS,
} as const satisfies Readonly<Record<string, Operation>>;

export type Operations = typeof OPERATIONS;
export type OperationName = keyof Operations;
export const OPERATION_NAMES = Object.keys(OPERATIONS) as readonly OperationName[];

export const ERROR_ANSWER = ref(ErrorObject);
export const BASE_PATH = "/v1";
