/** What the server is asked itself, whatever the watches say: the last look before something is taken away. An error is never "gone". */
import { field, has, isNumber, isObject, objects, parseObject, section, text, texts } from "../../lib/json/decode.ts";
import { type ApiClient, ApiError, type ApiRequest } from "../../lib/kubernetes/api-client.ts";
import type { ControllerOptions } from "../options.ts";
import type { ClusterView } from "../view/cluster-view.ts";
import { decodePodView, KUBE_CONTROLLERS, type PodView } from "../view/pod-view.ts";

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

  /** Without KubeVirt every look-up of a virtual machine is answered with "not found", which says nothing then. */
  hasKubeVirt(): Promise<boolean> {
    return this.hasApi("/apis/kubevirt.io/v1");
  }

  /** Whether the server serves a group. @throws ApiError of anything but an answer */
  async hasApi(path: string): Promise<boolean> {
    return (await this.#read(path)) !== undefined;
  }

  /**
   * `networking.podSubnet` of kubeadm's ClusterConfiguration, which `kubeadm init` stores (kubeadm.k8s.io/v1beta4): CIDRs with commas
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
 * Whether Calico's kube-controllers runs: it releases addresses by the same rules, and only one of two should. It counts as present when
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

  /** Why it counted as present at the last look, for people; `undefined` when it did not. */
  get found(): string | undefined {
    return this.#found;
  }

  /** Why it counts as present; `undefined` when it is absent. @throws ApiError when that cannot be found out */
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

  /** Asked by namespace: Deployments of tenants, however many, are not even listed. */
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
