/**
 * Decides about a call that the agent did not answer at the first try (A§3.10, A§11.5): asks the agent again while it is known to be
 * restarting or busy, and otherwise the plugin serves the call, or fails.
 */

import { BUSY } from "../../handover/call-frame.ts";
import { readPolicyFile } from "../../handover/policy-file.ts";
import { type FoundAgent, findAgent, isHostScope } from "../../handover/run-directory.ts";
import { renderError } from "../../lib/cni/error-output.ts";
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import { ForeignCniError, TortieError } from "../../lib/errors/errors.ts";
import { parseJson } from "../../lib/json/parse.ts";
import { isJsonObject } from "../../lib/json/value.ts";
import type { LogConfig } from "../../lib/log/file.ts";
import { createLogger, type Logger } from "../../lib/log/logger.ts";
import { DirectoryEvents } from "../../lib/system/directory-events.ts";
import { isLockHeld } from "../../lib/system/flock.ts";
import { notReady } from "../policy.ts";
import { askAgent, closeSandbox, type Outcome, type SentCall, type Way, wayOf } from "./ask.ts";

/** The longest wait where the plugin can do what is asked for by itself. */
const SHORT_WAIT_MS = 5_000;
/** Of a DEL, which does the urgent half of its work without the agent; and of STATUS, whose caller takes silence for a broken node. */
const SHORTEST_WAIT_MS = 3_000;
/** Between two looks at the socket, where nothing is heard of it. */
const LOOK_EVERY_MS = 1_000;
const FIRST_LOOK_MS = 5;
/** The pause of an agent whose queue is full (A§2.9), where the answer names none. */
const BUSY_PAUSE_MS = 200;
/** How often a call whose connection was lost is sent again. It is safe: the agent knows a call of the same attachment. */
const MOST_REPETITIONS = 3;

/** An agent that has not come back for so long, since it last wrote its phase, may never come back. */
const LONG_AWAY_SECONDS = 300;

/** @param first what became of the first try */
export async function retryOrFallBack(call: SentCall, first: Outcome): Promise<Way> {
  const { settings, runDirectory } = call;
  const agent = findAgent(runDirectory.agentFile);
  const isJudged = isForPolicy(call);
  const wait = { limitMs: isJudged ? settings.waitMs : waitLimit(call, agent), waitedMs: 0 };
  const last = settings.mode === "off" ? first : await repeat(call, first, wait);
  const way = last.kind === "answer" ? wayOf(last, call) : undefined;
  if (way !== undefined) return way;
  closeSandbox(call);
  if (isJudged && last.kind !== "late" && !isRunning(call)) return refusedByPolicy(call, last, wait);
  return withoutAgent(call, last, agent ?? findAgent(runDirectory.agentFile), wait);
}

/** Says whether only the agent can serve the call to its end: an ADD of a pod that policy closes until the agent opens it. */
function isForPolicy({ command, text, runDirectory }: SentCall): boolean {
  if (command !== "ADD" || readPolicyFile(runDirectory.policyFile) === undefined) return false;
  const netconf = parseJson(text);
  if (!isJsonObject(netconf)) return false;
  const { chain = "", dataplane_options: dataplane } = netconf;
  // Neither makes a link that the agent knows.
  return chain === "" && !(isJsonObject(dataplane) && dataplane.type === "grpc");
}

/** Keeps an ADD from answering success for a pod that nobody opens. */
function refusedByPolicy({ settings, runDirectory }: SentCall, last: Outcome, { waitedMs }: Wait): Way {
  if (settings.mode === "off") return failed(notReady("which does not run: with agent: off nobody would open the pod"));
  return failed(
    notReady(
      `which opens pods on this node and has not answered at ${runDirectory.calls} within ${Math.round(waitedMs / 1000)} s: ${reasonOf(last)}`,
    ),
  );
}

/** Time spent without the agent working on the call. */
interface Wait {
  readonly limitMs: number;
  waitedMs: number;
}

/** Milliseconds to wait for an agent that does not listen, or is busy. */
function waitLimit(call: SentCall, agent: FoundAgent | undefined): number {
  const { command, settings } = call;
  const { mode, waitMs, ipamType } = settings;
  const isKnown = agent !== undefined;
  // Where the plugin works by itself an agent that was stopped costs nothing; whoever requires it waits for the next one.
  if (isKnown && agent.phase === STOPPED && (mode !== "require" || command === "DEL") && !isRunning(call)) return 0;
  switch (command) {
    case "ADD":
      if (mode === "require") return waitMs;
      if (!isKnown) return 0;
      return isHostScope(ipamType, agent) ? waitMs : Math.min(SHORT_WAIT_MS, waitMs);
    case "DEL":
      return isKnown ? Math.min(SHORTEST_WAIT_MS, waitMs) : 0;
    case "STATUS":
      return isKnown && mode === "require" ? Math.min(SHORTEST_WAIT_MS, waitMs) : 0;
    default:
      return 0;
  }
}

/** The phase of an agent that was asked to end, and has ended. */
const STOPPED = "stopped";

function isRunning({ runDirectory }: SentCall): boolean {
  return isLockHeld(runDirectory.instanceLock);
}

/**
 * Says whether nobody may ever carry out a queued DEL: the agent was stopped on purpose, or has been away for long. The plugin can do it,
 * unless the addresses are the agent's own to release. An agent that starts meanwhile finds the DEL in its queue (agent-away.ts).
 */
function mayNeverReturn(call: SentCall, agent: FoundAgent): boolean {
  if (isHostScope(call.settings.ipamType, agent)) return false;
  return (agent.phase === STOPPED || agent.ageSeconds >= LONG_AWAY_SECONDS) && !isRunning(call);
}

/** @returns the first answer to the call, or what the last try came to when the time is over */
async function repeat(call: SentCall, first: Outcome, wait: Wait): Promise<Outcome> {
  const end = performance.now() + wait.limitMs + call.settings.timeoutMs;
  const log = openLog(call);
  const events = new DirectoryEvents(call.runDirectory.path);
  try {
    let repetitions = 0;
    // A call that is too long for the agent was so at the first try already.
    for (let outcome = first; ; outcome = (await askAgent(call, end - performance.now())) ?? outcome) {
      if (outcome.kind === "late" || performance.now() >= end) return outcome;
      if (outcome.kind === "answer" && outcome.status !== BUSY) return outcome;
      const left = wait.limitMs - wait.waitedMs;
      if (outcome.kind === "lost") {
        if (++repetitions > MOST_REPETITIONS) return outcome;
        log.writeNow("info", `the connection to the agent was lost (${outcome.reason}): asking again`);
        continue;
      }
      if (left <= 0) return outcome;
      if (wait.waitedMs === 0) {
        const what = outcome.kind === "absent" ? `no agent listens (${outcome.reason})` : "the agent is busy";
        log.writeNow("info", `${call.runDirectory.calls}: ${what}: waiting up to ${wait.limitMs / 1000} s`);
      }
      const pauseMs = Math.min(
        outcome.kind === "absent" ? (wait.waitedMs === 0 ? FIRST_LOOK_MS : LOOK_EVERY_MS) : pauseOf(outcome.body),
        left,
      );
      // The watch comes before the next look: a socket that appears between the two is seen by one of them.
      events.watch();
      wait.waitedMs += await timed(outcome.kind === "absent" ? events.next(pauseMs) : Bun.sleep(pauseMs));
    }
  } finally {
    events.close();
  }
}

async function timed(work: Promise<unknown>): Promise<number> {
  const start = performance.now();
  await work;
  return performance.now() - start;
}

function openLog({ command, attachment: { network, containerId, ifname }, text }: SentCall): Logger {
  return createLogger(logConfigOf(text), { command, network, containerId, interfaceName: ifname }, { spentMs: performance.now() });
}

/** Reads how to log. The plugin reports what the decoder refuses, whether or not there is an agent. */
function logConfigOf(text: string): LogConfig {
  try {
    const netconf = parseJson(text);
    return decodeNetworkConfig(isJsonObject(netconf) ? netconf : {}).log;
  } catch {
    return decodeNetworkConfig({}).log;
  }
}

function pauseOf(body: Uint8Array): number {
  const [, milliseconds] = /"retry-after-ms":\s*(\d+)/.exec(new TextDecoder().decode(body)) ?? [];
  return milliseconds === undefined ? BUSY_PAUSE_MS : Number(milliseconds);
}

function withoutAgent(call: SentCall, last: Outcome, agent: FoundAgent | undefined, { waitedMs }: Wait): Way {
  const { command, settings } = call;
  const why = reasonOf(last);
  if (last.kind === "late") {
    const seconds = settings.timeoutMs / 1000;
    return failed(new TortieError("agent-timeout", `the agent did not answer within ${seconds} s`));
  }
  if (settings.mode === "require" && (command === "ADD" || command === "STATUS")) {
    if (last.kind === "answer") return { kind: "answered", exit: 1, output: last.body };
    const error = new TortieError("agent-unreachable", `${unreachable(call, agent, waitedMs)}: ${why}`);
    return failed(command === "ADD" ? error : new ForeignCniError(STATUS_UNAVAILABLE, error.message, `${error.word}: ${error.next}`));
  }
  if (agent === undefined) return { kind: "no-agent" };
  const isLeft = mayNeverReturn(call, agent);
  const isQueued = command === "DEL" && settings.mode !== "off" && last.kind !== "answer" && !isLeft;
  return isQueued ? { kind: "agent-away-del", call, agent, why } : { kind: "agent-away", call, agent, isLeft, why };
}

/** CNI 1.1.0: no container can be added. */
const STATUS_UNAVAILABLE = 50;

function unreachable({ runDirectory }: SentCall, agent: FoundAgent | undefined, waitedMs: number): string {
  const known =
    agent === undefined ? "none was started since this machine booted" : `its last phase is "${agent.phase}", ${agent.ageSeconds} s ago`;
  return `no agent answered at ${runDirectory.calls} within ${Math.round(waitedMs / 1000)} s (${known})`;
}

function reasonOf(last: Outcome): string {
  if (last.kind === "answer") return `the agent answered with status ${last.status}`;
  return last.kind === "late" ? "no answer in time" : last.reason;
}

function failed(error: Error): Way {
  return { kind: "answered", exit: 1, output: new TextEncoder().encode(renderError(error)) };
}
