/** Asks the agents' pods: which of them are there, and what `tortiectl … --json` prints in one, within a limit of time. */
import { messageOf, TortieError } from "../../../lib/errors/errors.ts";
import { type Fields, has, objects, parseObject, section, text } from "../../../lib/json/decode.ts";
import { type Executed, execute } from "../../../lib/kubernetes/client/exec.ts";
import { decodePod, type Pod } from "../../../lib/kubernetes/objects.ts";
import { excerpt } from "../../../lib/log/format.ts";
import type { Cluster } from "./access.ts";

/** Of the pods and their container in manifests/node/daemonset.yaml. */
const SELECTOR = "k8s-app=tortie-node";
const CONTAINER = "tortie-node";
/** Nodes that are asked at one time: each costs the API server and a kubelet a connection. */
const AT_ONCE = 16;
const MOST_OF_A_REFUSAL = 300;

/** Is the pod of a node's agent. */
export interface AgentPod extends Pick<Pod, "namespace" | "name" | "nodeName"> {
  /** Its container runs; a program can be started in it. */
  readonly isRunning: boolean;
}

/** @returns the newest pod of each node */
export async function agentPods(cluster: Cluster, namespace: string): Promise<ReadonlyMap<string, AgentPod>> {
  const found = await cluster.list(`/api/v1/namespaces/${encodeURIComponent(namespace)}/pods`, { labelSelector: SELECTOR });
  return newestByNode(found);
}

export function newestByNode(pods: readonly Fields[]): ReadonlyMap<string, AgentPod> {
  const decoded = pods.map((object) => ({ object, pod: decodePod(object) })).filter(({ pod }) => pod.nodeName !== "");
  const sorted = decoded.toSorted((a, b) => (a.pod.creationTimestamp < b.pod.creationTimestamp ? -1 : 1));
  return new Map(
    sorted.map(({ object, pod: { namespace, name, nodeName } }) => {
      const states = objects(section(object, "status"), "containerStatuses").filter((status) => text(status, "name") === CONTAINER);
      return [nodeName, { namespace, name, nodeName, isRunning: states.some((status) => has(section(status, "state"), "running")) }];
    }),
  );
}

/** Carries why an agent's pod said nothing that can be read. */
export class AgentSilent extends TortieError {
  constructor(node: string, why: string, cause?: unknown) {
    super("agent-unreachable", `the agent of node ${node} does not answer: ${why}`, {
      cause,
      next: `look at its pod: kubectl get pods -A -l ${SELECTOR} --field-selector spec.nodeName=${node}`,
    });
  }
}

/**
 * Runs `tortiectl` in an agent's pod.
 * @throws AgentSilent; TortieError `exec-forbidden`
 */
export async function runOnNode(
  { client }: Pick<Cluster, "client">,
  { namespace, name, nodeName, isRunning }: AgentPod,
  argv: readonly string[],
  limitMs: number,
): Promise<Executed> {
  if (!isRunning) throw new AgentSilent(nodeName, `its pod ${namespace}/${name} does not run`);
  const target = { namespace, pod: name, container: CONTAINER };
  const late = new Error(`nothing came within ${limitMs / 1000} s`);
  const ending = new AbortController();
  const timer = setTimeout(() => ending.abort(late), limitMs);
  try {
    return await execute(client, target, ["tortiectl", ...argv], ending.signal);
  } catch (error) {
    if (error instanceof TortieError) throw error;
    throw new AgentSilent(nodeName, messageOf(error), error);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Reads what a command printed with --json. Its exit status says nothing here: a report that found something ends with 1.
 * @throws AgentSilent where that is an error, or nothing that can be read
 */
export function answerOf(node: string, { stdout, stderr }: Executed): Fields {
  let answer: Fields;
  try {
    answer = parseObject(stdout);
  } catch (cause) {
    throw new AgentSilent(node, excerpt(stderr.trim() || stdout.trim() || "tortiectl printed nothing", MOST_OF_A_REFUSAL), cause);
  }
  const message = text(section(answer, "error"), "message");
  if (message !== "") throw new AgentSilent(node, excerpt(message, MOST_OF_A_REFUSAL));
  return answer;
}

/** Asks many nodes, some at a time, and gives the answers in the order of the nodes. */
export async function askAll<N, A>(nodes: readonly N[], ask: (node: N) => Promise<A>): Promise<readonly A[]> {
  const answers: A[] = [];
  const left = [...nodes.entries()];
  const worker = async () => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) answers[next[0]] = await ask(next[1]);
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, nodes.length) }, worker));
  return answers;
}

/** Names the nodes on which an agent should run: the DaemonSet selects Linux. */
export function linuxNodes(nodes: readonly Fields[]): readonly string[] {
  return nodes
    .filter((node) => text(section(section(node, "metadata"), "labels"), "kubernetes.io/os") !== "windows")
    .map((node) => text(section(node, "metadata"), "name"))
    .sort();
}
