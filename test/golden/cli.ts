/**
 * `scripts/replay main/version-1.0.0`, `scripts/replay add-twice`, `scripts/replay ipam-kdd`: plays scenarios and prints how each differs
 * from its recording; whole suites end with counts. Exit 1 when something is different that nobody expects. `--kubernetes` plays them
 * against a real API server, `--etcd` against a real etcd, started for it; `--agent` plays them through an agent, on the local store
 * or the API server.
 */

import { startEtcd } from "../support/etcd/etcd.ts";
import { loadRecording, recordingNames, SUITES, type Suite } from "./recording/recording.ts";
import { needOf } from "./runner/applicability.ts";
import { resultOf } from "./runner/result.ts";
import { AGENT_RUNNER, etcdRunner, kubernetesAgentRunner, kubernetesRunner, LOCAL_RUNNER, type Runner } from "./runner/runner.ts";
import { ReplayCluster } from "./store/kubernetes/cluster.ts";

interface Named {
  readonly suite: Suite;
  readonly name: string;
}

const USAGE = "usage: scripts/replay [--quiet] [--agent] [--kubernetes | --etcd] SUITE | [SUITE/]SCENARIO …\n";

async function main(argv: readonly string[]): Promise<number> {
  const quiet = argv.includes("--quiet");
  const words = argv.filter((word) => !word.startsWith("--"));
  const scenarios = words.flatMap(scenariosOf);
  if (scenarios.length === 0) {
    process.stderr.write(`${USAGE}suites: ${SUITES.join(", ")}\n`);
    return 2;
  }
  const isEtcd = argv.includes("--etcd");
  await using etcd = isEtcd ? await startEtcd() : undefined;
  const needsCluster = isEtcd ? scenarios.some(({ suite }) => suite === "main") : argv.includes("--kubernetes");
  await using cluster = needsCluster ? await ReplayCluster.start() : undefined;
  const onServers = cluster === undefined ? LOCAL_RUNNER : kubernetesRunner(cluster);
  const onEtcd = etcd === undefined ? onServers : etcdRunner(etcd, cluster);
  const withAgent = cluster === undefined ? AGENT_RUNNER : kubernetesAgentRunner(cluster);
  const runner = argv.includes("--agent") ? withAgent : onEtcd;
  const counts = new Map<string, number>();
  for (const scenario of scenarios) {
    const result = await playOne(scenario, runner, quiet);
    counts.set(result, (counts.get(result) ?? 0) + 1);
  }
  process.stdout.write(`${[...counts].map(([result, count]) => `${count} ${result}`).join(", ")}\n`);
  return counts.has("different") ? 1 : 0;
}

function scenariosOf(word: string): Named[] {
  return SUITES.flatMap((suite) => {
    const names = recordingNames(suite).map((name) => ({ suite, name }));
    return word === suite ? names : names.filter(({ name }) => word === name || word === `${suite}/${name}`);
  });
}

async function playOne({ suite, name }: Named, runner: Runner, quiet: boolean): Promise<string> {
  const recording = loadRecording(suite, name);
  const title = `${suite}/${name}: ${recording.title}`;
  if (!runner.plays(recording)) {
    const { store, reason } = needOf(recording) ?? { store: "etcd", reason: "recorded there" };
    if (!quiet) process.stdout.write(`${title}\n  not played on ${runner.name}: needs ${store}, ${reason}\n`);
    return `need ${store}`;
  }
  const isListed = runner.differences[`${suite}/${name}`] !== undefined;
  const { problems, expected } = await resultOf(recording, runner);
  const result = problems.length > 0 ? "different" : isListed ? "equal but for listed differences" : "equal";
  if (problems.length === 0 && quiet) return result;
  const lines = [...problems.map((problem) => `DIFFERENT ${problem}`), ...(quiet ? [] : expected.map((each) => `on purpose ${each}`))];
  process.stdout.write(`${title}\n${lines.map((line) => `  ${line}\n`).join("")}`);
  return result;
}

process.exit(await main(process.argv.slice(2)));
