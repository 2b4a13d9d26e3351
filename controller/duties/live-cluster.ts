/** The last look before something is taken away: the server is asked, whatever the watches say. An error is never "gone". */
import { parseObject } from "../../lib/json/decode.ts";
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
