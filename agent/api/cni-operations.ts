/** What operators ask of calls of plugins, which themselves go over a socket of their own (A§11.3). */
import { Type } from "./model.ts";
import type { Operation } from "./operation.ts";

export const CNI_OPERATIONS = {
  cniStatus: {
    method: "GET",
    path: "/cni/status",
    summary: "STATUS of this node, without a network configuration",
    tag: "cni",
    answers: { 200: Type.String({ maxLength: 0, description: "Empty: an ADD could succeed" }) },
    isRead: false,
  },
} as const satisfies Readonly<Record<string, Operation>>;
