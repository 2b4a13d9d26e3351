/**
 * Decides about a call that the agent did not answer at the first try (A§3.10, A§11.5): ADD and CHECK wait for the agent, a DEL is unplugged
 * and queued, and everything else fails or says that nothing is wrong with the node.
 */

import { BUSY } from "../../handover/call-frame.ts";
import { findAgent } from "../../handover/run-directory.ts";
import { renderError } from "../../lib/cni/error-output.ts";
import { decodeNetworkConfig } from "../../lib/config/decode.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { parseJson } from "../../lib/json/parse.ts";
import { isJsonObject } from "../../lib/json/value.ts";
import type { LogConfig } from "../../lib/log/file.ts";
import { createLogger, type Logger } from "../../lib/log/logger.ts";
import { DirectoryEvents } from "../../lib/system/directory-events.ts";
import { askAgent, closeSandbox, type Outcome, type SentCall, type Way, wayOf } from "./ask.ts";

/** Longest pause between two looks at the socket, in case the kernel says nothing of it. */
const LOOK_EVERY_MS = 1_000;
const FIRST_LOOK_MS = 5;
/** The pause of an agent whose queue is full (A§2.9), where the answer names none. */
const BUSY_PAUSE_MS = 200;
/** How often a call whose connection was lost is sent again. It is safe: the agent knows a call of the same attachment. */
const MOST_REPETITIONS = 3;

/** @param first what became of the first try */
export async function retry(call: SentCall, first: Outcome): Promise<Way> {
  const wait = { limitMs: call.command === "ADD" || call.command === "CHECK" ? call.settings.waitMs : 0, waitedMs: 0 };
  const last = await repeat(call, first, wait);
  const way = last.kind === "answer" ? wayOf(last) : undefined;
  if (way !== undefined) return way;
  closeSandbox(call);
  return withoutAgent(call, last, wait);
}

/** Time spent without the agent working on the call. */
interface Wait {
  readonly limitMs: number;
  waitedMs: number;
}

/** @returns the first answer to the call, or the outcome of the last try when the time is over */
async function repeat(call: SentCall, first: Outcome, wait: Wait): Promise<Outcome> {
  const end = performance.now() + wait.limitMs + call.limitMs;
  const log = openLog(call);
  const events = new DirectoryEvents(call.runDirectory.path);
  try {
    let repetitions = 0;
    for (let outcome = first; ; outcome = await askAgent(call, end - performance.now())) {
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

/** Decides by the operation: only a DEL has work that needs no agent. */
function withoutAgent(call: SentCall, last: Outcome, wait: Wait): Way {
  const { command, limitMs } = call;
  // A failing STATUS makes the whole node NotReady, and running pods need no agent (docs/project/decisions.md).
  if (command === "STATUS") return { kind: "answered", exit: 0, output: new Uint8Array() };
  if (last.kind === "late") return failed(new TortieError("agent-timeout", `the agent did not answer within ${limitMs / 1000} s`));
  if (command === "DEL") return { kind: "unplug", call, why: reasonOf(last) };
  if (last.kind === "answer" && last.status === BUSY) return { kind: "answered", exit: 1, output: last.body };
  return failed(new TortieError("agent-unreachable", `${unreachable(call, wait)}: ${reasonOf(last)}`));
}

function unreachable({ runDirectory }: SentCall, { waitedMs }: Wait): string {
  const agent = findAgent(runDirectory.agentFile);
  const known =
    agent === undefined ? "none was started since this machine booted" : `its last phase is "${agent.phase}", ${agent.ageSeconds} s ago`;
  return `no agent answered at ${runDirectory.calls} within ${Math.round(waitedMs / 1000)} s (${known})`;
}

function reasonOf(last: Exclude<Outcome, { kind: "late" }>): string {
  return last.kind === "answer" ? `the agent answered with status ${last.status}` : last.reason;
}

function failed(error: Error): Way {
  return { kind: "answered", exit: 1, output: new TextEncoder().encode(renderError(error)) };
}
