/**
 * Runs `tortiectl policy off`, for a node whose agent is gone for good: the packet filter's table outlives the agent, so that a restart
 * opens nothing. Works without the agent.
 */
import { AgentApiError, AgentClient } from "../../../agent/api/client.ts";
import { HostSockets } from "../../../dataplane/netlink/host-sockets.ts";
import { PolicyTable } from "../../../dataplane/nftables/policy/policy-table.ts";
import { messageOf, TortieError } from "../../../lib/errors/errors.ts";
import type { AgentOptions } from "../ask-agent.ts";
import type { Terminal } from "../terminal.ts";

interface OffOptions extends AgentOptions {
  /** Even while an agent enforces policy. */
  readonly force: boolean;
}

/** @returns exit status */
export async function off({ socket, json, force }: OffOptions, terminal: Terminal): Promise<number> {
  const isEnforced = await enforces(socket);
  if (isEnforced && !force) {
    throw new TortieError("policy-in-use", `the agent at ${socket} enforces policy, and would make the table again at once`);
  }
  const removed = await remove();
  if (json) terminal.out(JSON.stringify({ ...removed, "agent-enforces": isEnforced }));
  else for (const line of linesOf(removed, isEnforced)) terminal.out(line);
  return 0;
}

/**
 * Opens the node for `tortiectl uninstall`, which has taken away what would open it otherwise.
 * @returns what was done, for people; nothing where policy was off
 */
export async function offAfterUninstall(socket: string): Promise<readonly string[]> {
  try {
    if (await enforces(socket)) return ["network policy stays on: an agent of this node still enforces it"];
    const removed = await remove();
    return removed.table ? linesOf(removed, false) : [];
  } catch (error) {
    // The installer's container may have no right to the kernel; then another one of its pod does this (manifests/uninstall).
    return [`whether network policy is on is not known (${messageOf(error)}): tortiectl policy off opens this node`];
  }
}

/** Asks the agent whether it enforces policy; one that is not there does not. An answer that says nothing of it counts as a yes. */
async function enforces(socket: string): Promise<boolean> {
  try {
    await new AgentClient(socket).call("getPolicy", {});
    return true;
  } catch (error) {
    if (error instanceof TortieError && error.word === "agent-unreachable") return false;
    if (error instanceof AgentApiError) return error.answer.word !== "policy-off";
    throw error;
  }
}

interface Removed {
  /** Whether there was a table. */
  readonly table: boolean;
  /** Packets that the table has dropped. */
  readonly dropped: number;
}

async function remove(): Promise<Removed> {
  using host = new HostSockets();
  // Neither prefixes nor the group matter for what is removed.
  const table = new PolicyTable(host, { prefixes: [], logGroup: 0 });
  const counters = await table.counters();
  await table.remove();
  return { table: counters.length > 0, dropped: counters.reduce((sum, { packets }) => sum + Number(packets), 0) };
}

function linesOf({ table, dropped }: Removed, isEnforced: boolean): readonly string[] {
  if (!table) return ["policy is off on this node already: there is no table of Tortie's packet filter"];
  const lines = [`table inet tortie-policy is removed, which had dropped ${dropped} packets: nothing is judged on this node any more`];
  return isEnforced ? [...lines, "an agent enforces policy on this node: it makes the table again at its next pass"] : lines;
}
