/** Reads answers (pure). */
import type { Answer, Fault } from "./contract.ts";

/** @returns the error that a command has told instead of an answer */
export function faultOf(answer: Answer<unknown> | undefined): Fault | undefined {
  const found = answer?.answer;
  if (typeof found !== "object" || found === null || !("error" in found)) return undefined;
  return found.error as Fault;
}

/** @returns what a command has answered; `undefined` for an error, or before there is an answer */
export function answered<T>(answer: Answer<T> | undefined): T | undefined {
  return answer === undefined || faultOf(answer) !== undefined ? undefined : (answer.answer as T);
}

/** Keeps the digits of integers beyond 2^53, such as sizes of IPv6 pools. */
export function parseExact(text: string): unknown {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  const exact = (_key: string, value: unknown, context?: { readonly source?: string }) =>
    typeof value === "number" && !Number.isSafeInteger(value) && /^\d{16,}$/.test(context?.source ?? "")
      ? BigInt(context?.source ?? 0)
      : value;
  return JSON.parse(text, exact);
}
