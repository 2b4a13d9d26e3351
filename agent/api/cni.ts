/** What operators ask of calls of plugins, which themselves go over a socket of their own (A§11.3). */
import { type HandlersOf, type Operations, Type } from "./operation.ts";

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
