/** The header by which a caller says of which trace a call is a part (W3C Trace Context, 3.2). One that makes no sense is none. */

export interface TraceParent {
  /** 32 hexadecimal digits, lower case. */
  readonly traceId: string;
  /** Of the caller's span: 16 hexadecimal digits, lower case. */
  readonly spanId: string;
  /** 8 bits; the lowest says that the caller records the trace. */
  readonly flags: number;
}

/** Later versions may say more behind the flags (3.2.4); version ff is none. */
const FORM = /^(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const NO_TRACE = /^0+$/;

/** @param text whatever came @returns `undefined` for everything that is no parent of a trace */
export function parseTraceparent(text: unknown): TraceParent | undefined {
  if (typeof text !== "string") return undefined;
  const [, version, traceId = "", spanId = "", flags = "", rest] = FORM.exec(text) ?? [];
  if (version === undefined || NO_TRACE.test(traceId) || NO_TRACE.test(spanId)) return undefined;
  if (version === "00" && rest !== undefined) return undefined;
  return { traceId, spanId, flags: Number.parseInt(flags, 16) };
}
