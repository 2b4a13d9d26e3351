/**
 * Defines what all duties of the leader share. A duty looks at the watches and names what is due; the queue then works on each item alone.
 * Before something is taken away the server itself is asked, whatever the watches say: an error never counts as "gone".
 */

import type { Allocator, Clock as AllocatorClock } from "../../ipam-plugin/allocator/allocator.ts";
import type { ApiGroup } from "../../lib/datastore/calico/codec.ts";
import type { KubernetesDatastore } from "../../lib/datastore/kubernetes/kubernetes-datastore.ts";
import { type Fields, field, has, isNumber, isObject, objects, parseObject, section, text, texts } from "../../lib/json/decode.ts";
import { type ApiClient, ApiError, type ApiRequest } from "../../lib/kubernetes/api-client.ts";
import type { AgentLog } from "../../lib/resident/agent-log.ts";
import { Observations } from "../../lib/resident/observations.ts";
import type { Clock } from "../../lib/system/waiting.ts";
import { AGENT, type AgentSet } from "../judge/agents.ts";
import type { ControllerOptions } from "../options.ts";
import { type ClusterView, decodePodView, KUBE_CONTROLLERS, type PodView } from "../view/cluster-view.ts";

/** What looks have seen of nodes that are gone, of allocations on them and elsewhere, of each kind of orphan, and of agents that are away. */
export type Observed = Readonly<Record<"node" | "departed" | "leak" | "pod" | "object" | "problem" | "agent", Observations>>;

export function newObserved(clock: Pick<Clock, "now">): Observed {
  const begun = () => new Observations(clock);
  return { node: begun(), departed: begun(), leak: begun(), pod: begun(), object: begun(), problem: begun(), agent: begun() };
}

export interface DutyContext {
  readonly view: ClusterView;
  /** Asks the server, never the watches. */
  readonly live: LiveCluster;
  readonly group: ApiGroup;
  /** Its writes stop with the lease. */
  readonly datastore: KubernetesDatastore;
  /** How many objects its lists have left out so far, because they could not be read. */
  readonly unreadable: () => number;
  readonly allocator: Allocator;
  /** Its writes stop with the lease. */
  readonly client: ApiClient;
  readonly clock: Clock;
  readonly allocatorClock: AllocatorClock;
  readonly observed: Observed;
  readonly kubeControllers: KubeControllers;
  readonly nodeGraceMs: number;
  /** 0: leaks stay. */
  readonly leakGraceMs: number;
  readonly log: Pick<AgentLog, "info" | "error">;
  readonly onReleased: (reason: "node" | "leak", addresses: number) => void;
  readonly onIdentity: (change: "created" | "renumbered" | "revived" | "retired" | "deleted") => void;
}

export interface Duty {
  readonly name: string;
  /** Where somebody waits for it: longest time between two looks, if `--scan-interval` is longer. */
  readonly mostMs?: number;
  /** Observes, and returns what is due. It writes nothing. @throws Error when the cluster cannot be judged now */
  look(signal: AbortSignal): Promise<readonly string[]>;
  /** Judges the item again, and does what is still due. @throws what shall be tried again */
  work(item: string, signal: AbortSignal): Promise<void>;
}

/**
 * Says whether addresses may be released at all now: not while the datastore is paused, nor while kube-controllers does the same work.
 * @throws Error when that cannot be found out, or the lists are not complete
 */
export async function mayRelease({ view, datastore, kubeControllers }: DutyContext): Promise<boolean> {
  view.mustBeComplete();
  if ((await kubeControllers.presence()) !== undefined) return false;
  const information = await datastore.clusterInformation.get("default");
  return information?.value.datastoreReady === true;
}

/** Asks the server, whatever the watches say. */
export class LiveCluster {
  readonly #client: Pick<ApiClient, "request">;

  constructor(client: Pick<ApiClient, "request">) {
    this.#client = client;
  }

  /** @throws ApiError of anything but an answer */
  async hasNode(name: string): Promise<boolean> {
    return (await this.#read(`/api/v1/nodes/${encodeURIComponent(name)}`)) !== undefined;
  }

  /** @throws ApiError, or Error when the pod cannot be read */
  async pod(namespace: string, name: string): Promise<PodView | undefined> {
    const text = await this.#read(`/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}`);
    return text === undefined ? undefined : decodePodView(parseObject(text));
  }

  /** Lists the agent's pods of one node. @throws ApiError of anything but an answer */
  async agentPods(namespace: string, node: string): Promise<readonly PodView[]> {
    const selectors = `labelSelector=k8s-app%3D${AGENT}&fieldSelector=spec.nodeName%3D${encodeURIComponent(node)}`;
    const list = await this.#client.request({
      method: "GET",
      path: `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods?${selectors}`,
    });
    return objects(parseObject(list), "items").map(decodePodView);
  }

  /** Lists DaemonSets of agents. @throws ApiError of anything but an answer */
  async agentSets(namespace: string): Promise<readonly AgentSet[]> {
    const path = `/apis/apps/v1/namespaces/${encodeURIComponent(namespace)}/daemonsets?labelSelector=k8s-app%3D${AGENT}`;
    const list = parseObject(await this.#client.request({ method: "GET", path }));
    const specOf = (set: Fields) => section(section(section(set, "spec"), "template"), "spec");
    return objects(list, "items").map((set) => ({ nodeSelector: texts(specOf(set), "nodeSelector") }));
  }

  /**
   * Asks for KubeVirt, without which every look-up of a virtual machine ends with "not found", which proves nothing then.
   * @throws ApiError of anything but an answer
   */
  async hasKubeVirt(): Promise<boolean> {
    return (await this.#read("/apis/kubevirt.io/v1")) !== undefined;
  }

  /** Lists the plurals of a group's kinds; none where it does not serve the group. @throws ApiError of anything but an answer */
  async kindsOf(path: string): Promise<readonly string[]> {
    const answer = await this.#read(path);
    return answer === undefined ? [] : objects(parseObject(answer), "resources").map((resource) => text(resource, "name"));
  }

  /**
   * Reads `networking.podSubnet` of kubeadm's ClusterConfiguration, which `kubeadm init` stores (kubeadm.k8s.io/v1beta4): CIDRs with commas
   * between them.
   *
   * @returns an empty text without kubeadm, and where it was told none
   * @throws ApiError; Error where the configuration cannot be read
   */
  async kubeadmPodSubnet(): Promise<string> {
    const object = await this.#read("/api/v1/namespaces/kube-system/configmaps/kubeadm-config");
    const stored = object === undefined ? undefined : texts(parseObject(object), "data").ClusterConfiguration;
    if (stored === undefined) return "";
    const configuration: unknown = Bun.YAML.parse(stored);
    if (!isObject(configuration)) throw new Error("ConfigMap kube-system/kubeadm-config has no ClusterConfiguration that can be read");
    return text(section(configuration, "networking"), "podSubnet");
  }

  /** @returns `undefined` on 404 of the object itself */
  #read(path: string): Promise<string | undefined> {
    return answerUnless([404], this.#client, { method: "GET", path });
  }
}

/** @returns the answer; `undefined` when the server answers with one of these statuses @throws ApiError of any other failure */
export async function answerUnless(
  statuses: readonly number[],
  client: Pick<ApiClient, "request">,
  request: ApiRequest,
): Promise<string | undefined> {
  try {
    return await client.request(request);
  } catch (error) {
    if (error instanceof ApiError && statuses.includes(error.status)) return undefined;
    throw error;
  }
}

/** Where Calico's manifests and its operator install it. */
const NAMESPACES = ["kube-system", "calico-system"];

type Settings = Pick<ControllerOptions, "calico-kube-controllers" | "calico-namespaces">;

/**
 * Finds out whether Calico's kube-controllers runs: it releases addresses by the same rules, and only one of two should. It counts as present when
 * one of its pods has not ended, or a Deployment of it wants one. A label alone proves nothing, since every tenant may set it: the namespace
 * must be one that Calico is installed in, and the service account its own (design, invariant 17). A controller that cannot find out releases
 * nothing.
 */
export class KubeControllers {
  readonly #setting: Settings["calico-kube-controllers"];
  readonly #namespaces: ReadonlySet<string>;
  readonly #client: Pick<ApiClient, "request">;
  readonly #view: Pick<ClusterView, "pods">;
  #found: string | undefined;

  constructor(settings: Settings, client: Pick<ApiClient, "request">, view: Pick<ClusterView, "pods">) {
    this.#setting = settings["calico-kube-controllers"];
    this.#namespaces = new Set([...NAMESPACES, ...(settings["calico-namespaces"]?.split(",") ?? [])]);
    this.#client = client;
    this.#view = view;
  }

  /** Says to people why it counted as present at the last look; `undefined` when it did not. */
  get found(): string | undefined {
    return this.#found;
  }

  /** Finds out why it counts as present; `undefined` when it is absent. @throws ApiError when that cannot be found out */
  async presence(): Promise<string | undefined> {
    this.#found = await this.#look();
    return this.#found;
  }

  async #look(): Promise<string | undefined> {
    if (this.#setting === "absent") return undefined;
    if (this.#setting === "present") return "--calico-kube-controllers says so";
    const pod = this.#view.pods.find(({ isKubeControllers, namespace }) => isKubeControllers && this.#namespaces.has(namespace));
    if (pod !== undefined) return `pod ${pod.namespace}/${pod.name}`;
    for (const namespace of this.#namespaces) {
      const name = await this.#wantedIn(namespace);
      if (name !== undefined) return `Deployment ${namespace}/${name}`;
    }
    return undefined;
  }

  /** Asks by namespace, so that Deployments of tenants, however many, are not even listed. */
  async #wantedIn(namespace: string): Promise<string | undefined> {
    const selector = encodeURIComponent(`k8s-app=${KUBE_CONTROLLERS}`);
    const path = `/apis/apps/v1/namespaces/${encodeURIComponent(namespace)}/deployments?labelSelector=${selector}`;
    const list = parseObject(await this.#client.request({ method: "GET", path }));
    const wanted = objects(list, "items").find((deployment) => {
      const spec = section(deployment, "spec");
      const account = text(section(section(spec, "template"), "spec"), "serviceAccountName");
      return account === KUBE_CONTROLLERS && (!has(spec, "replicas") || field(spec, "replicas", isNumber) > 0);
    });
    return wanted === undefined ? undefined : text(section(wanted, "metadata"), "name");
  }
}
