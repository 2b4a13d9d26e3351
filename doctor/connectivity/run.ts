/** Runs a connectivity test in its world: asks each node and a pod of each once, and judges the answers. */
import { messageOf } from "../../lib/errors/errors.ts";
import { untilAborted } from "../../lib/system/waiting.ts";
import { type CheckResult, failed, result, skipped } from "../report.ts";
import type { Known } from "./causes.ts";
import { groupOf, judge } from "./judge.ts";
import { planTrials, type Trial } from "./plan.ts";
import type { FactsWanted, HostFacts, ProbeReply, Question } from "./question.ts";
import { CHECKS, type World } from "./world.ts";

export interface TestOptions {
  /** The checks that are wanted; all when absent. */
  readonly only: readonly string[] | undefined;
  /** Limits the wait for one answer. */
  readonly timeoutMs: number;
  /** Ends the test. */
  readonly signal: AbortSignal;
}

/** @throws what aborted the signal */
export async function testConnectivity(world: World, { only, timeoutMs, signal }: TestOptions): Promise<readonly CheckResult[]> {
  const trials = planTrials(world, only);
  const facts = new Map<string, HostFacts>();
  const answers = new Map<string, ProbeReply["answers"][string]>();
  const broken: CheckResult[] = [];
  const ask = async (node: string, from: "pod" | "host") => {
    const questions = questionsOf(trials, node, from);
    if (from === "pod" && questions.length === 0) return;
    try {
      const request = { questions, timeoutMs, ...(from === "host" && { facts: factsOf(world, node) }) };
      const reply = await world.ask(node, from, request);
      for (const [id, answer] of Object.entries(reply.answers)) answers.set(id, answer);
      if (reply.facts !== undefined) facts.set(node, reply.facts);
    } catch (error) {
      const object = from === "host" ? `node ${node}` : `a pod on node ${node}`;
      broken.push(result("pods", "probe", failed(object, `cannot try anything: ${messageOf(error)}`, { next: NEXT_OF_PROBE })));
    }
  };
  await untilAborted(Promise.all(world.nodes.flatMap((node) => [ask(node, "pod"), ask(node, "host")])), signal);
  const known: Known = { world, facts, answerOf: (id) => answers.get(id) };
  const results = trials.map((trial) => result(groupOf(trial.check), trial.check, judge(trial, known)));
  return inOrder([...world.found, ...broken, ...results, ...left(world, only)]);
}

const NEXT_OF_PROBE = "tortiectl doctor says what pods of that node lack; the runtime's log has why one did not start";

function questionsOf(trials: readonly Trial[], node: string, from: "pod" | "host"): readonly Question[] {
  return trials.flatMap(({ asked }) => asked.filter((one) => one.node === node && one.from === from).map(({ question }) => question));
}

/** Asks for whatever may explain a failure: the host ends of this node's pods, and the ways to all. */
function factsOf({ members }: World, node: string): FactsWanted {
  return {
    ends: members.flatMap((one) => (one.node === node && one.hostEnd !== undefined ? [one.hostEnd] : [])),
    addresses: members.flatMap((one) => (one.role === "host" ? [] : one.addresses)),
  };
}

/** What this world cannot check is said too. */
function left({ lacks, nodes }: World, only: readonly string[] | undefined): readonly CheckResult[] {
  const wanted = CHECKS.filter((check) => lacks[check] !== undefined && (only === undefined || only.includes(check)));
  const object = nodes.length === 1 ? `node ${nodes[0]}` : "every node";
  return wanted.map((check) => result(groupOf(check), check, skipped(object, lacks[check] ?? "")));
}

function inOrder(results: readonly CheckResult[]): readonly CheckResult[] {
  const order: readonly string[] = CHECKS;
  const place = ({ check }: CheckResult) => order.indexOf(check);
  return [...results].sort((one, other) => place(one) - place(other));
}
