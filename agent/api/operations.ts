/**
 * Lists every operation of the API (A§2.3), once: the server's routes, the OpenAPI document, the typed client and docs/reference/api.md
 * come from here.
 */
import { ENDPOINT_OPERATIONS } from "./endpoint-schema.ts";
import { HISTORY_OPERATIONS } from "./history.ts";
import { IDENTITY_OPERATIONS } from "./identity.ts";
import { IPAM_OPERATIONS } from "./ipam.ts";
import { ErrorObject, NODE_OPERATIONS } from "./node.ts";
import { type HandlersOf, type Operations, ref, Type } from "./operation.ts";
import { POLICY_OPERATIONS } from "./policy-schema.ts";

/** What operators may ask about calls of plugins, which themselves use a socket of their own (A§11.3). */
export const CNI_OPERATIONS = {
  cniStatus: {
    method: "GET",
    path: "/cni/status",
    summary: "STATUS of this node, without a network configuration",
    answers: { 200: Type.String({ maxLength: 0, description: "Empty: an ADD could succeed" }) },
    isRootOnly: true,
  },
} as const satisfies Operations;

/** @param assertReady throws why this node is not ready */
export function cniHandlers(assertReady: () => void): HandlersOf<typeof CNI_OPERATIONS> {
  return {
    cniStatus() {
      assertReady();
      return { status: 200, body: "" };
    },
  };
}

export const OPERATIONS = {
  ...NODE_OPERATIONS,
  ...CNI_OPERATIONS,
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
