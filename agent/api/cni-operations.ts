/** Calls of plugins (A§11.3). */
import { CniCall, CniResult } from "./cni-models.ts";
import { ref, Type } from "./model.ts";
import type { Operation } from "./operation.ts";

const CALL_HEADERS = Type.Object({
  "tortie-deadline-ms": Type.Optional(
    Type.String({ pattern: "^[0-9]{1,9}$", description: "Milliseconds after which the caller wants no answer" }),
  ),
  traceparent: Type.Optional(Type.String({ description: "W3C trace context" })),
});

function cniCall(path: string, summary: string) {
  return {
    method: "POST",
    path: `/cni/${path}`,
    summary,
    tag: "cni",
    headers: CALL_HEADERS,
    body: ref(CniCall),
    answers: { 200: CniResult },
    isRead: false,
  } as const satisfies Operation;
}

export const CNI_OPERATIONS = {
  cniAdd: cniCall("add", "ADD: attaches a sandbox"),
  cniDel: cniCall("del", "DEL: detaches a sandbox"),
  cniCheck: cniCall("check", "CHECK: compares an attachment with what ADD made"),
  cniGc: cniCall("gc", "GC: removes attachments that the runtime no longer knows"),
  cniStatus: {
    method: "GET",
    path: "/cni/status",
    summary: "STATUS of this node, without a network configuration",
    tag: "cni",
    answers: { 200: CniResult },
    isRead: false,
  },
  cniStatusOf: cniCall("status", "STATUS: could an ADD of this network configuration succeed?"),
} as const satisfies Readonly<Record<string, Operation>>;
