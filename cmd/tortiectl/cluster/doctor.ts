/** Runs `kubectl tortie doctor`: the cluster's report, and that of every node, which its agent's pod makes, as one. */

import { hostname } from "node:os";
import { runClusterDoctor } from "../../../doctor/cluster/doctor.ts";
import { count } from "../../../doctor/problem.ts";
import { type CheckResult, exitStatus, failed, type Report, skipped, summary, well } from "../../../doctor/report.ts";
import { messageOf, TortieError } from "../../../lib/errors/errors.ts";
import { type Fields, may, must, objects, oneOf, readAll } from "../../../lib/json/decode.ts";
import { text } from "../../../lib/json/shape.ts";
import { VERSION } from "../../output.ts";
import { printReport } from "../doctor/print.ts";
import type { Terminal } from "../terminal.ts";
import { type ClusterOptions, environmentOf, openCluster } from "./access.ts";
import { type AgentPod, agentPods, answerOf, askAll, linuxNodes, runOnNode } from "./agents.ts";

export interface DoctorOptions extends ClusterOptions {
  readonly agentNamespace: string;
  /** Asks these nodes alone; empty: all. */
  readonly nodes: readonly string[];
  /** Limits the wait for one node. */
  readonly limitMs: number;
  readonly json: boolean;
}

/** @returns exit status: 1 where something failed */
export async function doctor(options: DoctorOptions, terminal: Terminal): Promise<number> {
  using cluster = openCluster(options);
  const pods = await agentPods(cluster, options.agentNamespace);
  const nodes = options.nodes.length > 0 ? options.nodes : linuxNodes(await cluster.list("/api/v1/nodes"));
  const env = environmentOf(options);
  const asked = { version: VERSION, host: hostname(), env, kubeconfig: env.KUBECONFIG, namespace: options.agentNamespace };
  const [whole, parts] = await Promise.all([
    runClusterDoctor(asked),
    askAll(nodes, (node) =>
      resultsOfNode(node, pods.get(node), async (pod) =>
        answerOf(node, await runOnNode(cluster, pod, ["doctor", "--json"], options.limitMs)),
      ),
    ),
  ]);
  const report: Report = { ...whole, results: [...whole.results, ...parts.flat()] };
  if (options.json) terminal.out(JSON.stringify(report, undefined, 2));
  else printReport(terminal, oneScreen(report));
  return exitStatus(report);
}

/** @param ask runs doctor in the pod, and gives its report */
export async function resultsOfNode(
  node: string,
  pod: AgentPod | undefined,
  ask: (pod: AgentPod) => Promise<Fields>,
): Promise<readonly CheckResult[]> {
  const place = { group: `node ${node}`, check: "node-answers" };
  const object = `node ${node}`;
  if (pod === undefined) {
    const next = "see why the DaemonSet makes none: kubectl describe daemonset -A -l k8s-app=tortie-node";
    return [{ ...place, ...failed(object, "no pod of tortie-node is there", { word: "agent-unreachable", next }) }];
  }
  try {
    const results = objects(await ask(pod), "results").map((result) => readAll(RESULT, result));
    const { ok, warning, failed: bad, skipped: unseen } = summary({ results });
    const message = `${count(bad, "check")} failed, ${count(warning, "warning")}, ${ok} well, ${unseen} not looked at`;
    return [{ ...place, ...well(object, message) }, ...results.map((result) => ({ ...result, group: `${place.group}: ${result.group}` }))];
  } catch (error) {
    if (!(error instanceof TortieError)) return [{ ...place, ...skipped(object, `its report cannot be read: ${messageOf(error)}`) }];
    // The right is missing for all nodes alike: that says nothing about them.
    if (error.word === "exec-forbidden") return [{ ...place, ...skipped(object, error.message), word: error.word, next: error.next }];
    return [{ ...place, ...failed(object, error.message, error) }];
  }
}

const RESULT = {
  group: text,
  check: text,
  status: must(oneOf("ok", "warning", "failed", "skipped")),
  object: text,
  message: text,
  word: may(text),
  next: may(text),
};

/** Leaves out what is well on the nodes: the line of each node counts it. */
function oneScreen(report: Report): Report {
  const isShown = ({ group, check, status }: CheckResult) =>
    check === "node-answers" || !group.startsWith("node ") || status === "failed" || status === "warning";
  return { ...report, results: report.results.filter(isShown) };
}
