/** What the server is asked itself, whatever the watches say: the last look before something is taken away. An error is never "gone". */
import { isObject, parseObject, section, text, texts } from "../../lib/json/decode.ts";
import { type ApiClient, ApiError } from "../../lib/kubernetes/api-client.ts";
import { decodePodView, type PodView } from "../view/pod-view.ts";

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
  async hasKubeVirt(): Promise<boolean> {
    return (await this.#read("/apis/kubevirt.io/v1")) !== undefined;
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
  async #read(path: string): Promise<string | undefined> {
    try {
      return await this.#client.request({ method: "GET", path });
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return undefined;
      throw error;
    }
  }
}
