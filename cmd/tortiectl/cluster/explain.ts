/**
 * Runs `kubectl tortie explain`: finds the node that knows, and lets `tortiectl explain` in its agent's pod answer. Of what is gone nobody
 * says on which node it was: every node is asked, and those that remember it answer.
 */

import { hostname } from "node:os";
import { explain as explanationOf, isWord } from "../../../doctor/explain/explain.ts";
import { BlockIndex, placedBlocks } from "../../../doctor/snapshot.ts";
import { holderOf, isFree } from "../../../ipam-plugin/allocator/block.ts";
import { formatAddress, parseAddress } from "../../../lib/addresses/address.ts";
import { TortieError } from "../../../lib/errors/errors.ts";
import { type Fields, objects, section, text } from "../../../lib/json/decode.ts";
import type { Executed } from "../../../lib/kubernetes/client/exec.ts";
import { hostInterfaceNameIfAny } from "../../../lib/workload/names.ts";
import { VERSION } from "../../output.ts";
import { printExplanation } from "../explain/print.ts";
import type { Terminal } from "../terminal.ts";
import { type Cluster, type ClusterOptions, endpointObjects, explained, listIfAny, openCluster } from "./access.ts";
import { type AgentPod, agentPods, answerOf, askAll, runOnNode } from "./agents.ts";

const KINDS = ["pod", "ip", "interface", "container"] as const;
type Kind = (typeof KINDS)[number];

interface Asked {
  readonly kind: Kind;
  readonly name: string;
}

export interface ExplainOptions extends ClusterOptions {
  /** A kind of `KINDS`, or a word of the errors. */
  readonly kind: string;
  readonly name: string | undefined;
  /** Of a pod that is named without one. `undefined`: the context's. */
  readonly namespace: string | undefined;
  /** RFC 3339; `undefined`: now. */
  readonly at: string | undefined;
  readonly node: string | undefined;
  readonly agentNamespace: string;
  readonly limitMs: number;
  readonly json: boolean;
}

/** @returns exit status: that of `tortiectl explain` on the node @throws TortieError `agent-unreachable`, `exec-forbidden`, `pod-unscheduled` */
export async function explain(options: ExplainOptions, terminal: Terminal): Promise<number> {
  if (options.name === undefined && isWord(options.kind)) return explainWord(options.kind, options.json, terminal);
  const { kind, name: given } = askedOf(options);
  using cluster = openCluster(options);
  const name = kind === "pod" && !given.includes("/") ? `${options.namespace ?? cluster.namespace}/${given}` : given;
  const pods = await agentPods(cluster, options.agentNamespace);
  const argv = ["explain", kind, name, ...(options.at === undefined ? [] : ["--at", options.at])];
  // A history is kept where it happened: what an address is now says nothing about that.
  const node = options.node ?? (options.at === undefined ? await explained(() => nodeOf(cluster, kind, name)) : undefined);
  const { asked, answer } = await answered({ cluster, pods, argv, limitMs: options.limitMs }, node);
  if (options.json) {
    terminal.out(answer.stdout.trimEnd());
    return answer.exit;
  }
  // The node's own version knows best how its answer reads.
  const { stdout, stderr, exit } = await runOnNode(cluster, asked, argv, options.limitMs);
  terminal.out(terminal.colors.dim(`node ${asked.nodeName}`));
  terminal.out(stdout.trimEnd());
  if (stderr.trim() !== "") terminal.err(stderr.trimEnd());
  return exit;
}

/** @throws TortieError `option-invalid`, `argument-missing` */
function askedOf({ kind, name }: Pick<ExplainOptions, "kind" | "name">): Asked {
  const known = KINDS.find((one) => one === kind);
  if (known === undefined) {
    throw new TortieError(
      "option-invalid",
      `${JSON.stringify(kind)} is none of ${KINDS.join(", ")}, and no word of docs/reference/errors.md`,
    );
  }
  if (name === undefined) throw new TortieError("argument-missing", `which ${known}?`);
  return { kind: known, name };
}

/** Needs neither a node nor the cluster. */
function explainWord(name: string, isJson: boolean, terminal: Terminal): number {
  const place = { time: new Date().toISOString(), host: hostname(), version: VERSION };
  const none = { attachments: [], addresses: [], history: [], leftovers: [], surroundings: [] };
  const explanation = explanationOf({ ...place, subject: { kind: "word", name }, ...none });
  if (isJson) terminal.out(JSON.stringify(explanation, undefined, 2));
  else printExplanation(explanation, terminal);
  return 0;
}

interface Question {
  readonly cluster: Cluster;
  readonly pods: ReadonlyMap<string, AgentPod>;
  readonly argv: readonly string[];
  readonly limitMs: number;
}

interface Answer {
  readonly asked: AgentPod;
  readonly answer: Executed;
  readonly weight: number;
}

/** @param node the one that knows; `undefined`: nobody says which */
async function answered({ cluster, pods, argv, limitMs }: Question, node: string | undefined): Promise<Answer> {
  const ask = async (asked: AgentPod): Promise<Answer> => {
    const answer = await runOnNode(cluster, asked, [...argv, "--json"], limitMs);
    return { asked, answer, weight: weightOf(answerOf(asked.nodeName, answer)) };
  };
  if (node !== undefined) return ask(podOn(node, pods));
  const failures: unknown[] = [];
  const all = await askAll([...pods.values()], (pod) => ask(pod).catch((error: unknown) => void failures.push(error)));
  const [best] = all.filter((one) => one !== undefined).toSorted((a, b) => b.weight - a.weight);
  if (best !== undefined) return best;
  throw failures[0] ?? new TortieError("agent-unreachable", "the cluster has no pod of tortie-node", { next: OTHER_NAMESPACE });
}

const OTHER_NAMESPACE = "name the namespace of the agents with --agent-namespace, or run tortiectl on the node";

function podOn(node: string, pods: ReadonlyMap<string, AgentPod>): AgentPod {
  const pod = pods.get(node);
  if (pod === undefined) throw new TortieError("agent-unreachable", `node ${node} has no pod of tortie-node`, { next: OTHER_NAMESPACE });
  return pod;
}

/** Says how much a node knows: what is attached there counts more than what was, and that more than nothing. */
export function weightOf(explanation: Fields): number {
  if (objects(explanation, "attachments").length > 0) return 3;
  const history = objects(explanation, "history").length > 0;
  return text(explanation, "standing") === "absent" ? 0 : history ? 2 : 1;
}

/** @returns `undefined` when nobody says it @throws TortieError `pod-unscheduled` */
async function nodeOf(cluster: Cluster, kind: Kind, name: string): Promise<string | undefined> {
  switch (kind) {
    case "pod":
      return nodeOfPod(cluster, name);
    case "ip":
      return nodeOfAddress(cluster, name);
    case "interface": {
      const pods = await cluster.list("/api/v1/pods");
      return pods.map(podNames).find((pod) => hostInterfaceNameIfAny(pod, undefined) === name)?.node;
    }
    case "container": {
      const stored = await listIfAny(cluster, endpointObjects());
      const found = stored.find((object) => text(section(object, "spec"), "containerID").startsWith(name));
      return found && text(section(found, "spec"), "node");
    }
  }
}

async function nodeOfPod(cluster: Cluster, key: string): Promise<string | undefined> {
  const [namespace = "", name = ""] = key.split("/");
  const [pod] = await cluster.list(`/api/v1/namespaces/${encodeURIComponent(namespace)}/pods`, { fieldSelector: `metadata.name=${name}` });
  if (pod === undefined) return undefined;
  const node = text(section(pod, "spec"), "nodeName");
  if (node !== "") return node;
  throw new TortieError("pod-unscheduled", `pod ${key} is on no node yet, so no network has been asked for`);
}

/** Reads it from the blocks; a host-scope address is found by the pod that shows it. */
async function nodeOfAddress(cluster: Cluster, name: string): Promise<string | undefined> {
  const address = parseAddress(name);
  if (address === undefined) throw new TortieError("option-invalid", `${JSON.stringify(name)} is no address`);
  const [placed] = new BlockIndex(placedBlocks(await cluster.datastore.blocks.list())).holding(address);
  const ordinal = placed === undefined ? 0 : Number(address.value - placed.prefix.address.value);
  const isHeld = placed !== undefined && !isFree(placed.block, ordinal);
  const node = isHeld ? holderOf(placed.block, ordinal)?.activeOwner?.node : undefined;
  if (node !== undefined) return node;
  const [pod] = await cluster.list("/api/v1/pods", { fieldSelector: `status.podIP=${formatAddress(address)}` });
  return pod && podNames(pod).node;
}

function podNames(pod: Fields) {
  const metadata = section(pod, "metadata");
  const [namespace, name] = [text(metadata, "namespace"), text(metadata, "name")];
  const node = text(section(pod, "spec"), "nodeName");
  return { orchestrator: "k8s", namespace, pod: name, node, containerId: "", endpoint: "eth0" } as const;
}
