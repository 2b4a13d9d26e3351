/** Asks the agent of this node: how its socket is found, and how its errors are told. */
import { AgentApiError, AgentClient } from "../../agent/api/client.ts";
import type { HistoryEntry, HistoryQuery } from "../../handover/history.ts";
import { printError, type Terminal } from "./terminal.ts";

export interface AgentOptions {
  readonly socket: string;
  readonly json: boolean;
}

/** @returns the exit status of the work, and 1 when the agent refuses @throws what else the work throws */
export async function asking(
  { socket }: Pick<AgentOptions, "socket">,
  terminal: Terminal,
  work: (client: AgentClient) => Promise<number>,
): Promise<number> {
  try {
    return await work(new AgentClient(socket));
  } catch (error) {
    if (!(error instanceof AgentApiError)) throw error;
    if (terminal.json === true) {
      // "endpoint-unknown: list the endpoints" (docs/reference/api.md)
      const [, word = null, next = null] = /^([a-z-]+): (.*)$/s.exec(error.answer.details ?? "") ?? [];
      printError(terminal, { word, message: error.answer.msg, next });
      return 1;
    }
    const { bold, red, dim } = terminal.colors;
    terminal.err(`${red("tortiectl:")} ${bold(error.answer.msg)}`);
    if (error.answer.details !== undefined) terminal.err(`  ${dim(error.answer.details)}`);
    return 1;
  }
}

/** @throws AgentApiError; TortieError `agent-unreachable` */
export async function askHistory(client: AgentClient, query: HistoryQuery): Promise<readonly HistoryEntry[]> {
  const { body } = await client.call("getHistory", { query });
  return body.map(({ "container-id": containerId, ...entry }) => ({ ...entry, ...(containerId !== undefined && { containerId }) }));
}
