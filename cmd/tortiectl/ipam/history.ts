/** Runs `tortiectl ipam history`: who had which address from when to when, by what the agent of this host has noted. */
import type { AgentClient } from "../../../agent/api/client.ts";
import { type Assignment, assignmentsOf, readHistory, wasAssigned } from "../../../handover/history.ts";
import { runDirectoryOf } from "../../../handover/run-directory.ts";
import { formatAddress, parseAddress } from "../../../lib/addresses/address.ts";
import { TortieError } from "../../../lib/errors/errors.ts";
import { type AgentOptions, askHistory, asking } from "../ask-agent.ts";
import { columns, oneLine, type Terminal } from "../terminal.ts";

export interface HistoryOptions extends AgentOptions {
  /** `undefined`: all. */
  readonly address: string | undefined;
  readonly at: string | undefined;
}

/** @returns exit status: 1 when nothing is known */
export function ipamHistory(options: HistoryOptions, terminal: Terminal): Promise<number> {
  return asking(options, terminal, async (client) => {
    const found = await assignments(client, options);
    const then = options.at === undefined ? found : found.filter((one) => wasAssigned(one, timeOf(options.at ?? "")));
    if (options.json) terminal.out(JSON.stringify(then, undefined, 2));
    else print(then, terminal);
    return then.length === 0 ? 1 : 0;
  });
}

/** Asks the agent, or reads its files where none answers. */
async function assignments(client: AgentClient, { socket, address: text }: HistoryOptions): Promise<readonly Assignment[]> {
  const address = text === undefined ? undefined : canonical(text);
  const query = address === undefined ? {} : { address };
  try {
    return only(assignmentsOf(await askHistory(client, query)), address);
  } catch (error) {
    if (!(error instanceof TortieError) || error.word !== "agent-unreachable") throw error;
    return only(assignmentsOf(readHistory(runDirectoryOf(socket).history, query)), address);
  }
}

/** Leaves out the other addresses of those who had this one. */
function only(found: readonly Assignment[], address: string | undefined): readonly Assignment[] {
  return address === undefined ? found : found.filter((one) => one.address === address);
}

function canonical(text: string): string {
  const address = parseAddress(text);
  if (address === undefined) throw new TortieError("option-invalid", `"${text}" is not an address`);
  return formatAddress(address);
}

function timeOf(text: string): number {
  const time = Date.parse(text);
  if (Number.isNaN(time)) throw new TortieError("option-invalid", `--at "${text}" is not a time, such as 2026-11-26T09:30:00Z`);
  return time;
}

function print(found: readonly Assignment[], terminal: Terminal): void {
  if (found.length === 0) {
    terminal.err("the history of this host knows of nobody");
    return;
  }
  const rows = found.map(({ address, from, until, pod, containerId }) => [
    address,
    from ?? "earlier",
    until ?? "now",
    oneLine(pod ?? "-"),
    oneLine(containerId ?? "-"),
  ]);
  for (const line of columns([["ADDRESS", "FROM", "UNTIL", "WORKLOAD", "CONTAINER"], ...rows], "")) terminal.out(line);
}
