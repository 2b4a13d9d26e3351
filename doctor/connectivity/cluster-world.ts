/**
 * Runs a connectivity test in a cluster: pods of its own namespace on one or more nodes. What is tried is the command of a pod, and what
 * came of it that pod's termination message, so that the test needs no right to execute in pods or to read their logs.
 */
import { messageOf, TortieError } from "../../lib/errors/errors.ts";
import { type Fields, has, objects, section, text } from "../../lib/json/decode.ts";
import { type JsonObject, stringifyJson } from "../../lib/json/value.ts";
import { type ApiClient, ApiError, everyItem } from "../../lib/kubernetes/api-client.ts";
import { metadataOf } from "../../lib/kubernetes/objects.ts";
import { SYSTEM_CLOCK, sleepUnless } from "../../lib/system/waiting.ts";
import { podHostInterfaceName } from "../../lib/workload/names.ts";
import { type CheckResult, failed, result, warned, well } from "../report.ts";
import { ENDS, LABEL, namespaceObject, type PodWish, podObject, podWishes, policyObject, probeCommand } from "./cluster-objects.ts";
import { LIMIT, somePorts } from "./host-world.ts";
import { type ProbeReply, type ProbeRequest, parseReply } from "./question.ts";
import { type Member, made, type Target, type World } from "./world.ts";

export interface ClusterOptions {
  /** Nodes that are wanted; the first two that are Ready when empty. */
  readonly nodes: readonly string[];
  /** Image that has tortiectl; that of the agent's DaemonSet when absent. */
  readonly image: string | undefined;
  readonly outside: readonly Target[];
  readonly nameServer: Target | undefined;
  readonly lookedUp: string | undefined;
  /** Limits the wait for pods. */
  readonly podsMs: number;
}

const LOOK_MS = 300;
const AGENT = { namespace: "kube-system", name: "tortie-node" };
/** A test may run so long; later its namespace is what a killed one has left. */
const LONGEST_MS = 15 * 60_000;

/** @throws what keeps the test from beginning, after what was made is gone again */
export function openClusterWorld(api: ApiClient, options: ClusterOptions, signal: AbortSignal): Promise<World> {
  return made(new ClusterWorld(api, options, signal));
}

/**
 * Removes the namespaces that tests have left.
 * @param evenRunning also those whose test may still run
 */
export async function cleanCluster(api: ApiClient, evenRunning: boolean): Promise<readonly CheckResult[]> {
  const results: CheckResult[] = [];
  for (const namespace of await everyItem(api, "/api/v1/namespaces", { labelSelector: LABEL })) {
    const { name, annotations } = metadataOf(namespace);
    const object = `namespace ${name}`;
    if (text(section(namespace, "metadata"), "deletionTimestamp") !== "") continue;
    if (!evenRunning && !(Date.parse(annotations[ENDS] ?? "") < SYSTEM_CLOCK.date().getTime())) {
      const next = "if none does: tortiectl connectivity clean";
      results.push(result("pods", "left-over", warned(object, "another test may still run there", { next })));
      continue;
    }
    await api.request({ method: "DELETE", path: `/api/v1/namespaces/${name}` });
    results.push(result("pods", "left-over", well(object, "what a killed test has left is removed")));
  }
  return results;
}

class ClusterWorld implements World {
  readonly members: Member[] = [];
  readonly ports = somePorts();
  readonly found: CheckResult[] = [];
  nodes: readonly string[] = [];
  outside: readonly Target[];
  lacks: World["lacks"] = {};
  limit = { bitsPerSecond: LIMIT, isPromised: false };
  isPolicyPromised = false;
  readonly lookup: World["lookup"];
  readonly #api: ApiClient;
  readonly #options: ClusterOptions;
  readonly #signal: AbortSignal;
  #image = "";
  #namespace = "";
  #asked = 0;

  constructor(api: ApiClient, options: ClusterOptions, signal: AbortSignal) {
    this.#api = api;
    this.#options = options;
    this.#signal = signal;
    this.outside = options.outside;
    this.lookup = { server: options.nameServer, name: options.lookedUp ?? "kubernetes.default.svc" };
  }

  async make(): Promise<void> {
    this.found.push(...(await cleanCluster(this.#api, false)));
    this.nodes = await this.#chooseNodes();
    await this.#readAgent();
    if (this.outside.length === 0) this.outside = await this.#servers();
    this.lacks = {
      ...(this.nodes.length === 1 && { "other-node": "the test has one node: name others with --node" }),
      ...(this.outside.length === 0 && { egress: "nothing outside is known: name something with --egress ADDRESS:PORT" }),
    };
    this.#signal.throwIfAborted();
    const ends = new Date(SYSTEM_CLOCK.date().getTime() + LONGEST_MS);
    this.#namespace = metadataOf(await this.#create("/api/v1/namespaces", namespaceObject(ends))).name;
    await this.#create(`/apis/networking.k8s.io/v1/namespaces/${this.#namespace}/networkpolicies`, policyObject(this.ports.serve));
    const wishes = podWishes(this.nodes, this.ports, this.#image, LIMIT);
    for (const wish of wishes) await this.#createPod(wish);
    await this.#untilPodsRun(wishes);
  }

  async ask(node: string, from: "pod" | "host", request: ProbeRequest): Promise<ProbeReply> {
    const name = `from-${from}-${this.nodes.indexOf(node)}-${++this.#asked}`;
    const isHost = from === "host";
    await this.#createPod({
      name,
      role: "client",
      node,
      image: this.#image,
      command: probeCommand(request),
      hostNetwork: isHost,
      isSpoofing: request.questions.some(({ kind }) => kind === "spoof"),
    });
    const end = SYSTEM_CLOCK.now() + this.#options.podsMs + 30 * request.timeoutMs;
    for (;;) {
      const pod = JSON.parse(await this.#api.request({ method: "GET", path: `${this.#pods()}/${name}` }));
      const [container = {}] = objects(section(pod, "status"), "containerStatuses");
      const ended = section(section(container, "state"), "terminated");
      if (has(ended, "exitCode")) return replyOf(ended);
      if (text(section(pod, "status"), "phase") === "Failed" || SYSTEM_CLOCK.now() > end) throw new Error(await this.#whyNot(pod));
      await sleepUnless(this.#signal, LOOK_MS);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#namespace === "") return;
    await this.#api.request({ method: "DELETE", path: `/api/v1/namespaces/${this.#namespace}` }).catch((error: unknown) => {
      if (error instanceof ApiError && error.status === 404) return;
      throw new Error(
        `namespace ${this.#namespace} of the test was not removed; tortiectl connectivity clean tries again: ${messageOf(error)}`,
      );
    });
  }

  async #chooseNodes(): Promise<readonly string[]> {
    const all = await everyItem(this.#api, "/api/v1/nodes");
    const { nodes } = this.#options;
    const missing = nodes.find((name) => !all.some((node) => metadataOf(node).name === name));
    if (missing !== undefined) {
      throw new TortieError("option-invalid", `--node: there is no node ${missing}`, { next: "kubectl get nodes lists them" });
    }
    if (nodes.length > 0) return [...new Set(nodes)];
    const usable = all.filter((node) => isReady(node) && section(node, "spec").unschedulable !== true);
    if (usable.length === 0)
      throw new TortieError("argument-missing", "no node is Ready: which nodes are to be tested?", { next: "give --node NAME" });
    return usable.slice(0, 2).map((node) => metadataOf(node).name);
  }

  /** The agent's DaemonSet has an image that every node has already, and says what it has promised. */
  async #readAgent(): Promise<void> {
    const agent = await this.#getIfAny(`/apis/apps/v1/namespaces/${AGENT.namespace}/daemonsets/${AGENT.name}`);
    const containers = agent === undefined ? [] : objects(section(section(section(agent, "spec"), "template"), "spec"), "containers");
    const container = containers.find((one) => text(one, "name") === AGENT.name);
    const image = this.#options.image ?? (container === undefined ? "" : text(container, "image"));
    if (image === "") {
      throw new TortieError("argument-missing", `there is no DaemonSet ${AGENT.namespace}/${AGENT.name}: which image has tortiectl?`, {
        next: "give --image REGISTRY/tortie:VERSION",
      });
    }
    this.#image = image;
    if (container === undefined) return;
    this.isPolicyPromised = !/--policy(?:=|",")off|TORTIE_POLICY","value":"off/.test(JSON.stringify(container));
    const config = await this.#getIfAny(`/api/v1/namespaces/${AGENT.namespace}/configmaps/tortie-config`);
    const takesBandwidth = config !== undefined && /"capabilities\\*"\s*:\s*\{[^{}]*bandwidth\\*"\s*:\s*true/.test(JSON.stringify(config));
    this.limit = { bitsPerSecond: LIMIT, isPromised: takesBandwidth };
  }

  /** Takes the API server's own addresses for what is outside of the pods' network. */
  async #servers(): Promise<readonly Target[]> {
    const path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    const slices = await everyItem(this.#api, path, { labelSelector: "kubernetes.io/service-name=kubernetes" }).catch((error: unknown) => {
      if (error instanceof ApiError && [403, 404].includes(error.status)) return [];
      throw error;
    });
    return slices.flatMap((slice) => {
      const [port] = objects(slice, "ports").flatMap((one) => (typeof one.port === "number" ? [one.port] : []));
      const addresses = objects(slice, "endpoints").flatMap((one) => (Array.isArray(one.addresses) ? one.addresses.map(String) : []));
      return port === undefined ? [] : addresses.map((address) => ({ address, port }));
    });
  }

  async #createPod(wish: PodWish): Promise<void> {
    const end = SYSTEM_CLOCK.now() + this.#options.podsMs;
    for (;;) {
      try {
        return void (await this.#create(this.#pods(), podObject(wish)));
      } catch (error) {
        // A new namespace gets its service account a moment later, and no pod is admitted before.
        const isEarly = error instanceof ApiError && error.status === 403 && /service ?account/i.test(error.explanation);
        if (!isEarly || SYSTEM_CLOCK.now() > end) throw error;
        await sleepUnless(this.#signal, LOOK_MS);
      }
    }
  }

  async #untilPodsRun(wishes: readonly PodWish[]): Promise<void> {
    const end = SYSTEM_CLOCK.now() + this.#options.podsMs;
    for (;;) {
      const pods = new Map((await everyItem(this.#api, this.#pods())).map((pod) => [metadataOf(pod).name, pod]));
      const waiting = wishes.filter(({ name }) => !isRunning(pods.get(name)));
      if (waiting.length > 0 && SYSTEM_CLOCK.now() < end) {
        await sleepUnless(this.#signal, LOOK_MS);
        continue;
      }
      for (const wish of wishes) {
        const pod = pods.get(wish.name);
        if (waiting.includes(wish)) await this.#reportMissing(wish, pod);
        else if (pod !== undefined) this.members.push(memberOf(wish, pod, this.#namespace));
      }
      return;
    }
  }

  async #reportMissing({ name, node, role }: PodWish, pod: Fields | undefined): Promise<void> {
    const next = `the message's word is in docs/reference/errors.md; tortiectl doctor on ${node}`;
    const why = pod === undefined ? "it is gone" : await this.#whyNot(pod);
    this.found.push(result("pods", "start", failed(`pod ${name} (${role}) on node ${node}`, `does not run: ${why}`, { next })));
  }

  /** What kubelet says about a pod that does not run. */
  async #whyNot(pod: Fields): Promise<string> {
    const [container = {}] = objects(section(pod, "status"), "containerStatuses");
    const waiting = section(section(container, "state"), "waiting");
    const query = `?fieldSelector=${encodeURIComponent(`involvedObject.name=${metadataOf(pod).name},type=Warning`)}`;
    const events = await this.#getIfAny(`/api/v1/namespaces/${this.#namespace}/events${query}`);
    const last = events === undefined ? undefined : objects(events, "items").at(-1);
    const said = last === undefined ? "" : `${text(last, "reason")}: ${text(last, "message")}`;
    return (
      said || text(section(pod, "status"), "message") || text(waiting, "message") || text(waiting, "reason") || "kubelet has not said why"
    );
  }

  async #getIfAny(path: string): Promise<Fields | undefined> {
    try {
      return JSON.parse(await this.#api.request({ method: "GET", path }));
    } catch (error) {
      if (error instanceof ApiError && [403, 404].includes(error.status)) return undefined;
      throw error;
    }
  }

  async #create(path: string, object: JsonObject): Promise<Fields> {
    return JSON.parse(await this.#api.request({ method: "POST", path, body: stringifyJson(object) }));
  }

  #pods(): string {
    return `/api/v1/namespaces/${this.#namespace}/pods`;
  }
}

function memberOf({ role, name, node }: PodWish, pod: Fields, namespace: string): Member {
  const status = section(pod, "status");
  const addresses = objects(status, "podIPs").map((one) => text(one, "ip"));
  const known = ["web", "limited", "closed", "host"] as const;
  const found = known.find((one) => one === role) ?? "web";
  return { role: found, name, node, addresses, hostEnd: found === "host" ? undefined : podHostInterfaceName(namespace, name) };
}

function isRunning(pod: Fields | undefined): boolean {
  return pod !== undefined && text(section(pod, "status"), "phase") === "Running" && objects(section(pod, "status"), "podIPs").length > 0;
}

function isReady(node: Fields): boolean {
  return objects(section(node, "status"), "conditions").some((one) => text(one, "type") === "Ready" && text(one, "status") === "True");
}

/** @throws Error when the probe has not written a reply */
function replyOf(ended: Fields): ProbeReply {
  const message = text(ended, "message");
  if (message !== "" && ended.exitCode === 0) return parseReply(message);
  throw new Error(`the probe ended with status ${String(ended.exitCode)}: ${(message || text(ended, "reason")).slice(0, 300)}`);
}
