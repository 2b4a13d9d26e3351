/** Judges the agent by its socket, its own health, and its version. The port hides how it is asked. */

import { TortieError } from "../../lib/errors/errors.ts";
import { type Finding, failed, skipped, warned, well } from "../report.ts";
import { judgeVersion } from "./lists.ts";
import type { AgentCheck, HostView } from "./view.ts";

const LOGS = "read its log: journalctl -u tortie-node, or kubectl -n kube-system logs of its pod; then start it again";

export async function agentSocket(view: HostView): Promise<readonly Finding[]> {
  const { file, view: agent } = await view.agent();
  const { socket } = view.options;
  if (!(agent instanceof Error)) return [well(socket, `an agent answers, phase ${agent.phase}`)];
  if (file !== undefined) {
    const { version, phase, ageSeconds } = file;
    const message = `version ${version} has written ${view.run.agentFile} ${ageSeconds} s ago (phase ${phase}), and does not answer: ${agent.message}`;
    return [failed(socket, message, { word: wordOf(agent), next: LOGS })];
  }
  if (view.ownList()?.config.agent.mode === "require") {
    const next =
      'start the agent (systemctl start tortie-node), or set "agent" to "off" in the list: the plugins serve their calls themselves then';
    return [
      failed(socket, `the list requires an agent, and none has been here since the host's start: ${agent.message}`, {
        word: wordOf(agent),
        next,
      }),
    ];
  }
  if (!isUnreachable(agent)) return [failed(socket, agent.message, { word: wordOf(agent), next: LOGS })];
  return [skipped(socket, "no agent has been here since the host's start: the plugins serve their calls themselves")];
}

function isUnreachable(error: Error): boolean {
  return error instanceof TortieError && error.word === "agent-unreachable";
}

function wordOf(error: Error): string | undefined {
  return error instanceof TortieError ? error.word : undefined;
}

const STATUS = "look at it: tortiectl node status";

/** Repeats what the agent finds itself. */
export async function agentHealth(view: HostView): Promise<readonly Finding[]> {
  const { view: agent } = await view.agent();
  if (agent instanceof Error) return [skipped("agent", "no agent answers")];
  const { checks, waits, findings, isReady } = agent;
  const found = [
    // Policy has a row of its own.
    ...checks.filter(({ name }) => name !== "network-policy").flatMap(ofCheck),
    ...waits.map(({ what, since }) => warned("agent", `it waits for ${what} since ${since}`, { next: STATUS })),
    ...findings.map((finding) => warned("agent", finding, { next: STATUS })),
  ];
  if (!isReady && found.every(({ status }) => status !== "failed")) {
    found.push(failed("agent", "it is not ready", { next: STATUS }));
  }
  return found.length > 0 ? found : [well("agent", `ready, and its ${checks.length} checks are well`)];
}

function ofCheck({ name, state, message, next = STATUS }: AgentCheck): readonly Finding[] {
  if (state === "failure") return [failed(`agent, ${name}`, message, { next })];
  return state === "warning" ? [warned(`agent, ${name}`, message, { next })] : [];
}

export async function agentVersion(view: HostView): Promise<readonly Finding[]> {
  const { view: agent } = await view.agent();
  if (agent instanceof Error) return [skipped("agent", "no agent answers")];
  return [judgeVersion("agent", agent.version, view.options.version)];
}
