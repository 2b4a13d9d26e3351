/** Takes away what an earlier agent left of policy, where `--policy` is off. */
import { messageOf } from "../../lib/errors/errors.ts";
import { NO_POLICY } from "../../main-plugin/policy.ts";
import type { AgentContext } from "../start/context.ts";
import { openNode } from "./kernel.ts";
import type { AgentPolicy } from "./start.ts";

const WHY_OFF = "policy is not enforced: the agent was started with --policy off";

/** Opens the node. What stays in the kernel all the same is a line of the log. */
export async function endPolicy({ host, log }: Pick<AgentContext, "host" | "log">): Promise<AgentPolicy> {
  await openNode(host).catch((error: unknown) => log.error(`policy is off, but stays in the kernel: ${messageOf(error)}`));
  return {
    calls: NO_POLICY,
    view: () => undefined,
    whyOff: () => WHY_OFF,
    restored: () => undefined,
    found: () => undefined,
    [Symbol.asyncDispose]: async () => undefined,
  };
}
