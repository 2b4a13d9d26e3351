/** Runs `tortiectl policy check`: looks at this node's kernel, asks the agent if there is one, and prints what doctor/policy.ts finds. */
import { AgentApiError, AgentClient } from "../../../agent/api/client.ts";
import { HostSockets } from "../../../dataplane/netlink/host-sockets.ts";
import { summaryOf } from "../../../doctor/host/policy.ts";
import { type PolicyFacts, policyFindings, UNSAID } from "../../../doctor/policy.ts";
import { readNodeFacts } from "../../../doctor/policy-facts.ts";
import { TortieError } from "../../../lib/errors/errors.ts";
import type { AgentOptions } from "../ask-agent.ts";
import type { Terminal } from "../terminal.ts";

/** Of the agent: it counts NetworkPolicy objects that nobody enforces. */
const UNENFORCED_CHECK = "network-policy";

/** @returns exit status: 1 where something is wrong */
export async function check({ socket, json }: AgentOptions, terminal: Terminal): Promise<number> {
  const asked = await askPolicy(new AgentClient(socket));
  using host = new HostSockets();
  const facts = { ...readNodeFacts(host, process.env), ...asked };
  const findings = policyFindings(facts);
  if (json) terminal.out(JSON.stringify({ enforced: facts.isEnforced === true, endpoints: facts.hostEnds.length, findings }, undefined, 2));
  else {
    const { red, dim, green } = terminal.colors;
    for (const { kind, message, next } of findings) {
      terminal.out(`${red(kind)}  ${message}`);
      terminal.out(`  ${dim(`next  ${next}`)}`);
    }
    if (findings.length === 0) terminal.out(`${green("ok")}  ${summaryOf(facts)}`);
  }
  return findings.length === 0 ? 0 : 1;
}

export type AskedPolicy = Pick<PolicyFacts, "isServed" | "isEnforced" | "differences" | "unread" | "unenforced">;

/** Asks what only an agent knows. Without one the kernel alone is looked at. */
export async function askPolicy(client: AgentClient): Promise<AskedPolicy> {
  try {
    const [table, policy] = [await client.call("comparePolicyTable", {}), await client.call("getPolicy", {})];
    const unread = policy.body.unread.map((one) => ({ kind: one.kind, atLeast: one["at-least"] }));
    return { ...UNSAID, isServed: true, isEnforced: true, differences: table.body.differences, unread };
  } catch (error) {
    if (error instanceof TortieError && error.word === "agent-unreachable") return { ...UNSAID, isServed: false };
    if (!(error instanceof AgentApiError) || error.answer.word !== "policy-off") throw error;
  }
  const { body } = await client.call("getHealthz", {});
  const found = body.checks.find(({ name, state }) => name === UNENFORCED_CHECK && state === "warning");
  return { ...UNSAID, isServed: true, isEnforced: false, unenforced: found?.message };
}
