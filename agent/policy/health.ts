/** Says how policy is on this node: what is not enforced although it exists, and what the kernel does not hold yet. */
import type { CheckResult } from "../../lib/resident/health.ts";
import type { PolicyView } from "./view.ts";

/** Named one by one; the list of all is `tortiectl policy list`. */
const MOST_NAMED = 3;

export type CheckedPolicy = Pick<PolicyView, "enforcement" | "gaps" | "unread" | "conflicts" | "policies" | "endpoints" | "pending">;

/** Answers from memory: it is asked every few seconds. */
export function judgePolicy(view: CheckedPolicy): CheckResult {
  const troubles = [...gaps(view), ...unread(view), ...invalid(view), ...conflicts(view)];
  const message = `${counted(view.policies().length, "policy", "policies")} on ${counted(view.endpoints().length, "endpoint", "endpoints")}`;
  if (view.enforcement === "never") {
    return { state: "warning", message: `${message}, and none is enforced (--enforcement never)`, next: "start the agent without it" };
  }
  const [first] = troubles;
  if (first === undefined) return { state: "ok", message: `${message}${view.enforcement === "always" ? "; all others are closed" : ""}` };
  const texts = troubles.map(({ text }) => text).join("; ");
  return { state: "warning", message: `${message}; ${texts}`, next: [...new Set(troubles.map(({ next }) => next))].join("; ") };
}

interface Trouble {
  readonly text: string;
  readonly next: string;
}

function gaps(view: CheckedPolicy): readonly Trouble[] {
  const pending = view.pending().length;
  const next = "the kernel keeps what it holds until then; new pods wait. See what the message names, and the log";
  const texts = [
    ...view.gaps(),
    ...(pending === 0 ? [] : [`${counted(pending, "endpoint waits", "endpoints wait")} for the packet filter`]),
  ];
  return texts.map((text) => ({ text, next }));
}

/** Says which kinds of policy exist and are not read, a trouble each. */
export function unread(view: Pick<CheckedPolicy, "unread">): readonly Trouble[] {
  return view.unread().map(({ kind, atLeast }) => ({
    text: `at least ${atLeast} of ${kind} ${atLeast === 1 ? "exists and is" : "exist and are"} not enforced`,
    next: "Tortie reads NetworkPolicy of networking.k8s.io/v1 only: write them so, or let the program that reads them enforce them",
  }));
}

function invalid(view: CheckedPolicy): readonly Trouble[] {
  const keys = view.policies().flatMap(({ key, problem }) => (problem === undefined ? [] : [key]));
  if (keys.length === 0) return [];
  const text = `${named(keys)} ${keys.length === 1 ? "is" : "are"} invalid, and open${keys.length === 1 ? "s" : ""} nothing`;
  return [{ text, next: "tortiectl policy list says what is wrong with each" }];
}

function conflicts(view: CheckedPolicy): readonly Trouble[] {
  const all = view.conflicts();
  if (all.length === 0) return [];
  const texts = all.map(({ address, pods }) => `${address} (${pods.join(" and ")})`);
  return [
    { text: `two pods claim ${named(texts)}`, next: "an address that two pods claim is nobody's for policies: delete the wrong pod" },
  ];
}

function named(all: readonly string[]): string {
  const more = all.length - MOST_NAMED;
  return `${all.slice(0, MOST_NAMED).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

function counted(count: number, one: string, several: string): string {
  return `${count} ${count === 1 ? one : several}`;
}
