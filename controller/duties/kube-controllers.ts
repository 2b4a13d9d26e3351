/**
 * Whether Calico's kube-controllers runs: it releases addresses by the same rules, and only one of two should. It counts as present when
 * one of its pods has not ended, or a Deployment of it wants one. A label alone proves nothing, since every tenant may set it: the namespace
 * must be one that Calico is installed in, and the service account its own (design, invariant 17). A controller that cannot find out releases
 * nothing.
 */
import { field, has, isNumber, objects, parseObject, section, text } from "../../lib/json/decode.ts";
import type { ApiClient } from "../../lib/kubernetes/api-client.ts";
import type { ControllerOptions } from "../options.ts";
import type { ClusterView } from "../view/cluster-view.ts";
import { KUBE_CONTROLLERS } from "../view/pod-view.ts";

/** Where Calico's manifests and its operator install it. */
const NAMESPACES = ["kube-system", "calico-system"];

type Settings = Pick<ControllerOptions, "calico-kube-controllers" | "calico-namespaces">;

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
