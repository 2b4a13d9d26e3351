/** What the server hands calls of plugins to (A§11.3). */
import type { PreparedCall } from "../../handover/call.ts";
import type { AttachmentId } from "../../lib/cni/attachment-id.ts";
import type { Peer } from "./peer.ts";

export interface AttachmentCallContext {
  readonly peer: Peer;
  /** Aborts when the caller is gone, when the deadline is near, or when the agent ends. */
  readonly signal: AbortSignal;
  /** W3C trace context of the caller. */
  readonly traceparent?: string;
}

/** Sent as it is; the plugin copies the body to its standard output (A§11.3). */
export interface AttachmentAnswer {
  readonly status: number;
  readonly body: string;
  /** Number of the endpoint that the call was about. */
  readonly endpoint?: number;
  /** How many warnings the agent's log has of this call. */
  readonly warnings?: number;
}

export interface AttachmentService {
  /** Never throws for what the call asks for: an error is an answer too. */
  serve(call: PreparedCall, context: AttachmentCallContext): Promise<AttachmentAnswer>;
  /** The attachment is known to the agent; a DEL of an unknown one needs no place in the queue (A§2.9). */
  isKnown(attachment: AttachmentId): boolean;
}
