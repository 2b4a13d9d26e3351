/** Judges network policy on this host as `tortiectl policy check` does, from the kernel and from what the agent says. */
import { type PolicyFacts, policyFindings, UNSAID } from "../policy.ts";
import { readNodeFacts } from "../policy-facts.ts";
import { count } from "../problem.ts";
import { type Finding, failed, well } from "../report.ts";
import type { HostView } from "./view.ts";

export async function policy(view: HostView): Promise<readonly Finding[]> {
  const { view: agent } = await view.agent();
  const isServed = !(agent instanceof Error);
  const facts = {
    ...readNodeFacts(view.sockets, view.options.env),
    ...(isServed ? agent.policy : UNSAID),
    isServed,
  };
  const found = policyFindings(facts);
  if (found.length > 0) return found.map(({ kind, message, next }) => failed("network policy", message, { word: kind, next }));
  return [well("network policy", summaryOf(facts))];
}

/** Says in one sentence how policy is where nothing is wrong with it. */
export function summaryOf({ isEnforced, hostEnds, hasFelix }: Pick<PolicyFacts, "isEnforced" | "hostEnds" | "hasFelix">): string {
  if (isEnforced === true)
    return `policy is enforced for ${count(hostEnds.length, "host end")}, and nothing weakens it that can be seen here`;
  return hasFelix ? "Felix enforces policy on this node" : "policy is off on this node, and no object is known that asks for it";
}
