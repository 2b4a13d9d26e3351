/** Keeps what the checks of a cluster look at, each list read once and only when the first check asks for it. Changes nothing. */
import type { Environment } from "../../lib/cni/protocol.ts";
import { decodeNetworkConfig, type NetworkConfig } from "../../lib/config/decode.ts";
import { type ApiGroup, configuredGroup, servedGroup } from "../../lib/datastore/calico/codec.ts";
import { wordOfTransport } from "../../lib/datastore/kubernetes/resource-api.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { type Fields, parseObject } from "../../lib/json/decode.ts";
import { pagesOf, parsePage } from "../../lib/kubernetes/api-client.ts";
import { ApiConnection } from "../../lib/kubernetes/client/connection.ts";
import type { Exchanged } from "../../lib/kubernetes/client/transport.ts";
import { TransportError, transportErrorOr } from "../../lib/kubernetes/client/transport-error.ts";
import type { ApiConfig } from "../../lib/kubernetes/config/api-config.ts";
import { resolveApiConfig } from "../../lib/kubernetes/config/resolve.ts";
import { once } from "../../lib/system/waiting.ts";
import { dateOf } from "../api-server.ts";
import { NotLooked } from "../checks.ts";
import { skipped } from "../report.ts";

export interface ClusterOptions {
  /** Of this program. */
  readonly version: string;
  /** Name of the host that this program runs on, for the report. */
  readonly host: string;
  readonly env: Environment;
  /** Absent: as kubectl finds it. */
  readonly kubeconfig: string | undefined;
  /** Where agents and controller run. */
  readonly namespace: string;
}

/** Labels of what manifests/ and the chart make. */
const AGENTS = "k8s-app=tortie-node";
const CONTROLLERS = "k8s-app=tortie-controller";

export class ClusterView implements Disposable {
  readonly options: ClusterOptions;
  readonly settings: NetworkConfig;
  readonly config: ApiConfig;
  readonly connection: ApiConnection;

  /** @throws TortieError `kubeconfig-missing`, `kubeconfig-unreadable`, `kubeconfig-invalid` */
  constructor(options: ClusterOptions) {
    this.options = options;
    const { kubeconfig, env } = options;
    this.settings = decodeNetworkConfig({ datastore_type: "kubernetes", ...(kubeconfig !== undefined && { kubernetes: { kubeconfig } }) });
    this.config = resolveApiConfig(this.settings, env);
    this.connection = new ApiConnection(this.config);
  }

  readonly date = once(() => dateOf(this.config));

  /** Returns the group that has the pools; `undefined` where the server has neither of Calico's. */
  readonly group = once(async (): Promise<ApiGroup | undefined> => {
    const configured = configuredGroup(this.settings, this.options.env);
    return configured ?? servedGroup({ request: async ({ path }) => (await this.get(path)).body });
  });

  readonly nodes = once(() => this.list("/api/v1/nodes"));
  readonly daemonSets = once(() => this.list("/apis/apps/v1/daemonsets"));
  readonly agentSets = once(() => this.list(this.#within("/apis/apps/v1", "daemonsets"), AGENTS));
  readonly agentPods = once(() => this.list(this.#within("/api/v1", "pods"), AGENTS));
  readonly controllers = once(() => this.list(this.#within("/apis/apps/v1", "deployments"), CONTROLLERS));
  readonly pools = once(async () => this.list(`/apis/${await this.#group()}/ippools`));

  /** @throws TortieError `datastore-unavailable`; NotLooked where the account has no right to it */
  async get(path: string): Promise<Exchanged> {
    const answer = await transportErrorOr(() => this.connection.exchange({ method: "GET", path }));
    return this.#understood(path, answer);
  }

  /** @returns `undefined` where there is no such object @throws as `get` */
  async object(path: string): Promise<Fields | undefined> {
    const { status, body } = await this.get(path);
    return status === 404 ? undefined : parseObject(body);
  }

  /** @returns nothing where there is no such kind @throws as `get` */
  async list(path: string, labelSelector?: string): Promise<readonly Fields[]> {
    const ask = async (query: string) => {
      const { status, body } = await this.get(`${path}${query}`);
      return status === 404 ? { items: [], next: "", version: "" } : parsePage(body);
    };
    const pages = await Array.fromAsync(pagesOf(ask, { labelSelector }, false));
    return pages.flatMap(({ items }) => items);
  }

  /** Makes a review: the server answers a question, and stores nothing. @throws as `get` */
  async review(path: string, object: Fields): Promise<Fields> {
    const answer = await transportErrorOr(() => this.connection.exchange({ method: "POST", path, body: JSON.stringify(object) }));
    return parseObject(this.#understood(path, answer).body);
  }

  [Symbol.dispose](): void {
    this.connection.close();
  }

  async #group(): Promise<ApiGroup> {
    const group = await this.group();
    if (group === undefined) throw new NotLooked(skipped("pools", "the API server has neither of Calico's groups"));
    return group;
  }

  #within(root: string, plural: string): string {
    return `${root}/namespaces/${encodeURIComponent(this.options.namespace)}/${plural}`;
  }

  #understood(path: string, answer: Exchanged | TransportError): Exchanged {
    const what = `${this.connection.server}${path.split("?")[0]}`;
    if (answer instanceof TransportError)
      throw new TortieError(wordOfTransport(answer), `${what}: ${this.connection.redact(answer.message)}`, { cause: answer });
    const { status } = answer;
    if (status === 403) throw new NotLooked(skipped(what, `${this.config.identity.description} has no right to it`));
    if (status === 401)
      throw new TortieError("datastore-unauthorized", `${what}: the API server does not know ${this.config.identity.description}`);
    if (status >= 200 && status < 300) return answer;
    if (status === 404) return answer;
    throw new TortieError("datastore-unavailable", `${what}: the API server answered ${status}`);
  }
}
