/** Declares one test a scenario, and at the end that every general difference still occurs. */

import { startEtcd } from "../support/etcd/etcd.ts";
import { shared } from "../support/fixtures.ts";
import { LOCAL_GENERAL } from "./differences/differences.ts";
import { AGENT_KUBERNETES_GENERAL } from "./differences/differences-agent-kubernetes.ts";
import { ETCD_GENERAL } from "./differences/differences-etcd.ts";
import { KUBERNETES_GENERAL } from "./differences/differences-kubernetes.ts";
import type { GeneralDifference } from "./differences/expected-difference.ts";
import { loadRecording, type Recording, recordingNames, type Suite } from "./recording/recording.ts";
import { resultOf } from "./runner/result.ts";
import {
  AGENT_RUNNER,
  etcdRunner,
  isPlayedOnEtcd,
  isPlayedOnKubernetes,
  isPlayedThroughAgent,
  kubernetesAgentRunner,
  kubernetesRunner,
  LOCAL_RUNNER,
  type Runner,
} from "./runner/runner.ts";
import { ReplayCluster } from "./store/kubernetes/cluster.ts";

// Only ends what hangs: a call has a limit of its own (sandbox/sandbox.ts).
jest.setTimeout(600_000);

/** What a suite's tests need to know before the place they run at is there. */
interface Declaration {
  readonly suite: Suite;
  /** For the message of a failed test: how to play one scenario again. */
  readonly command: string;
  readonly general: readonly GeneralDifference[];
  /** Most of the scenarios are to go through an agent. */
  readonly hasAgent?: boolean;
  readonly runner: Runner;
  plays(recording: Recording): boolean;
}

/** The recordings that the local store can play; the others are played on the server that they need (applicability.ts). */
export function describeLocalSuite(suite: Suite): void {
  describe(`recordings of ${suite}, played on the local store`, () => {
    declare({ suite, command: "scripts/replay", general: LOCAL_GENERAL, plays: LOCAL_RUNNER.plays, runner: LOCAL_RUNNER });
  });
}

/** The recordings that the local store can play, each with an agent that serves the main plugin's calls. */
export function describeAgentSuite(suite: Suite): void {
  describe(`recordings of ${suite}, played on the local store through an agent`, () => {
    const { general, plays } = AGENT_RUNNER;
    declare({ suite, command: "scripts/replay --agent", general, plays, runner: AGENT_RUNNER, hasAgent: true });
  });
}

/** Every recording that was made on Kubernetes, on a cluster of this suite's own. @param hasAgent one serves the main plugin's calls */
export function describeKubernetesSuite(suite: Suite, hasAgent = false): void {
  describe(`recordings of ${suite}, played against a real API server${hasAgent ? " through an agent" : ""}`, () => {
    const cluster = shared(ReplayCluster.start);
    declare({
      suite,
      command: `scripts/replay${hasAgent ? " --agent" : ""} --kubernetes`,
      general: hasAgent ? AGENT_KUBERNETES_GENERAL : KUBERNETES_GENERAL,
      plays: (recording) => isPlayedOnKubernetes(recording) && (!hasAgent || isPlayedThroughAgent(recording)),
      runner: shared(() => (hasAgent ? kubernetesAgentRunner(cluster) : kubernetesRunner(cluster))),
      hasAgent,
    });
  });
}

/** Every recording that was made on etcd, on an etcd of this suite's own, with an API server beside it for those of `main`. */
export function describeEtcdSuite(suite: Suite): void {
  describe(`recordings of ${suite}, played against a real etcd`, () => {
    const etcd = shared(() => startEtcd());
    const cluster = suite === "main" ? shared(ReplayCluster.start) : undefined;
    const runner = shared(() => etcdRunner(etcd, cluster));
    declare({ suite, command: "scripts/replay --etcd", general: ETCD_GENERAL, plays: isPlayedOnEtcd, runner });
  });
}

function declare({ suite, command, general, hasAgent = false, plays, runner }: Declaration): void {
  const occurred = new Set<string>();
  let served = 0;
  for (const recording of recordingNames(suite).map((name) => loadRecording(suite, name))) {
    if (!plays(recording)) continue;
    it(`${recording.name}: ${recording.title}`, async () => {
      const result = await resultOf(recording, runner);
      served += result.servedByAgent;
      for (const difference of result.general) occurred.add(difference);
      // A thrown text, because Jest on Bun prints no message of a failed `expect`.
      if (result.problems.length > 0) throw new Error(`${command} ${suite}/${recording.name}\n${result.problems.join("\n")}`);
    });
  }

  it("show every general difference that is said to occur in this suite", () => {
    expect(general.filter(({ name, suites }) => suites.includes(suite) && !occurred.has(name))).toEqual([]);
  });

  if (hasAgent) {
    it("went through the agent", () => {
      expect(served).toBeGreaterThan(recordingNames(suite).length / 2);
    });
  }
}
