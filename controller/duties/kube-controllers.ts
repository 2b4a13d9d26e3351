/**
 * Whether Calico's kube-controllers runs: it releases addresses by the same rules, and only one of two should. It counts as present when
 * one of its pods has not ended, or a Deployment of it wants one; a controller that cannot find out releases nothing.
 */
import { field, has, isNumber, objects, parseObject, section, text } from "../../lib/json/decode.ts";
import type { ApiClient } from "../../lib/kubernetes/api-client.ts";
import type { ClusterView } from "../view/cluster-view.ts";
import { KUBE_CONTROLLERS } from "../view/pod-view.ts";

const DEPLOYMENTS = `/apis/apps/v1/deployments?labelSelector=${encodeURIComponent(`k8s-app=${KUBE_CONTROLLERS}`)}`;

export class KubeControllers {
  readonly #setting: "auto" | "present" | "absent";
  readonly #client: Pick<ApiClient, "request">;
  readonly #view: Pick<ClusterView, "pods">;

  /** @param setting `--calico-kube-controllers` */
  constructor(setting: "auto" | "present" | "absent", client: Pick<ApiClient, "request">, view: Pick<ClusterView, "pods">) {
    this.#setting = setting;
    this.#client = client;
    this.#view = view;
  }

  /** Why it counts as present; `undefined` when it is absent. @throws ApiError when that cannot be found out */
  async presence(): Promise<string | undefined> {
    if (this.#setting === "absent") return undefined;
    if (this.#setting === "present") return "--calico-kube-controllers says so";
    const pod = this.#view.pods.find(({ isKubeControllers }) => isKubeControllers);
    if (pod !== undefined) return `pod ${pod.namespace}/${pod.name}`;
    const list = parseObject(await this.#client.request({ method: "GET", path: DEPLOYMENTS }));
    const wanted = objects(list, "items").find((deployment) => {
      const spec = section(deployment, "spec");
      return !has(spec, "replicas") || field(spec, "replicas", isNumber) > 0;
    });
    if (wanted === undefined) return undefined;
    const metadata = section(wanted, "metadata");
    return `Deployment ${text(metadata, "namespace")}/${text(metadata, "name")}`;
  }
}
