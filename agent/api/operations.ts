/**
 * Every operation of the API (A§2.3), once: the server's routes, the OpenAPI document, the typed client and docs/reference/api.md come from here.
 */
import { CNI_OPERATIONS } from "./cni.ts";
import { ENDPOINT_OPERATIONS } from "./endpoint-schema.ts";
import { IPAM_OPERATIONS } from "./ipam.ts";
import { ErrorObject, NODE_OPERATIONS } from "./node.ts";
import { type HandlersOf, ref } from "./operation.ts";

export const OPERATIONS = { ...NODE_OPERATIONS, ...CNI_OPERATIONS, ...ENDPOINT_OPERATIONS, ...IPAM_OPERATIONS } as const;

export type OperationName = keyof typeof OPERATIONS;
export type Handlers = HandlersOf<typeof OPERATIONS>;
export const OPERATION_NAMES = Object.keys(OPERATIONS) as readonly OperationName[];

export const ERROR_ANSWER = ref(ErrorObject);
export const BASE_PATH = "/v1";
