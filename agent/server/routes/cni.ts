/** POST /v1/cni/…: a plugin's call, handed over whole (A§11.3). The answer's body is what the plugin prints. */
import { TortieError } from "../../../lib/errors/errors.ts";
import { type CniVerb, DEADLINE_HEADER } from "../../forward/protocol.ts";
import type { AttachmentService } from "../attachment-service.ts";
import type { HandlerAnswer, HandlerRequest, Handlers } from "../handler.ts";
import { Starts } from "../starts.ts";

type CniOperations = "cniAdd" | "cniDel" | "cniCheck" | "cniGc" | "cniStatusOf";

/**
 * Inner limits are shorter than outer ones (A§2.8): a second for the answer's way, or half of a caller's time that is hardly longer, and
 * never more than containerd waits.
 */
const MARGIN_MS = 1_000;
const LONGEST_MS = 110_000;

export function cniHandlers(service: AttachmentService): Pick<Handlers, CniOperations> {
  const starts = new Starts();
  const verb =
    (name: CniVerb) =>
    async (request: HandlerRequest<CniOperations>): Promise<HandlerAnswer> => {
      const { peer, headers } = request;
      using deadline = deadlineOf(headers[DEADLINE_HEADER]);
      const traceparent = typeof headers.traceparent === "string" ? headers.traceparent : undefined;
      const signal = AbortSignal.any([request.signal, deadline.signal]);
      await starts.next();
      // Awaited here: the deadline's timer is cleared when this function returns.
      return await service.serve(name, request.body, { peer, signal, ...(traceparent === undefined ? {} : { traceparent }) });
    };
  return { cniAdd: verb("add"), cniDel: verb("del"), cniCheck: verb("check"), cniGc: verb("gc"), cniStatusOf: verb("status") };
}

/** Aborts before the caller stops waiting. */
function deadlineOf(header: string | string[] | undefined): { readonly signal: AbortSignal } & Disposable {
  const whole = typeof header === "string" ? Number(header) : LONGEST_MS + MARGIN_MS;
  const milliseconds = Math.max(0, Math.min(whole - Math.min(MARGIN_MS, whole / 2), LONGEST_MS));
  const controller = new AbortController();
  const timer = setTimeout(
    () => controller.abort(new TortieError("agent-timeout", `not done within the ${milliseconds} ms that the caller waits`)),
    milliseconds,
  );
  return { signal: controller.signal, [Symbol.dispose]: () => clearTimeout(timer) };
}
