/** The real API server as a replay store: objects are put and read by plain HTTP calls of the administrator, never by our own client. */
import { type JsonRecord, printJson } from "../../compare/json.ts";
import type { Recording } from "../../recording/recording.ts";
import type { StoredObject } from "../../recording/stored-object.ts";
import { type StoredState, stateFromPlurals } from "../../recording/stored-state.ts";
import { forward, serveStatuses } from "../../sandbox/loopback-servers.ts";
import type { Sandbox } from "../../sandbox/sandbox.ts";
import type { ReplayStore, StoreKind } from "../replay-store.ts";
import { agentKubeconfig, writeKubeconfigs } from "./access.ts";
import type { ReplayCluster } from "./cluster.ts";
import { UNSEEN_UID } from "./objects.ts";

/** Ports on the sandbox's 127.0.0.1. */
const API_PORT = 6443;
const GATE_PORT = 8099;
/** Of almost every recording. */
const NODE = "node1";

export function kubernetesStore(cluster: ReplayCluster): StoreKind {
  return {
    open: (sandbox, recording) => KubernetesReplayStore.open(cluster, sandbox, recording),
    // Endpoints are the pods' annotations, and those are compared whole.
    comparable: (recorded) => ({ ...recorded, endpoints: {} }),
  };
}

class KubernetesReplayStore implements ReplayStore {
  readonly places: ReadonlyMap<string, string>;
  readonly agentFlags: readonly string[];
  readonly #cluster: ReplayCluster;
  readonly #servers: DisposableStack;

  private constructor(
    cluster: ReplayCluster,
    places: ReadonlyMap<string, string>,
    agentFlags: readonly string[],
    servers: DisposableStack,
  ) {
    this.#cluster = cluster;
    this.places = places;
    this.agentFlags = agentFlags;
    this.#servers = servers;
  }

  static async open(cluster: ReplayCluster, sandbox: Sandbox, recording: Recording): Promise<KubernetesReplayStore> {
    using servers = new DisposableStack();
    servers.use(forward(sandbox, API_PORT, cluster.port));
    if (recording.text.includes("{{gate}}")) servers.use(serveStatuses(sandbox, GATE_PORT));
    await writeKubeconfigs(sandbox, cluster, `https://127.0.0.1:${API_PORT}`, recording);
    const places = new Map([
      ["{{apiserver}}", `127.0.0.1:${API_PORT}`],
      ["{{gate}}", `127.0.0.1:${GATE_PORT}`],
      ["{{state}}", `${sandbox.dir}/state`],
    ]);
    const agentFlags = ["--node-name", NODE, "--datastore-type", "kubernetes", "--kubeconfig", agentKubeconfig(sandbox)];
    return new KubernetesReplayStore(cluster, places, agentFlags, servers.move());
  }

  get volatile(): ReadonlyMap<string, string> {
    const uids = [...this.#cluster.contents.uids].map(([token, uid]) => [uid, token] as const);
    return new Map([...this.#cluster.accountNames, ...uids, [UNSEEN_UID, "{{uid}}"]]);
  }

  /** Nothing has to be changed: the recordings' store is this one. */
  rewriteNetconf(stdin: JsonRecord | string): string {
    return typeof stdin === "string" ? stdin : printJson(stdin);
  }

  async seed(objects: readonly StoredObject[]): Promise<void> {
    await this.#cluster.contents.replace(objects);
    await this.#cluster.startCounting();
  }

  async applyChange(put: readonly StoredObject[], remove: readonly { readonly kind: string; readonly name: string }[]): Promise<void> {
    for (const object of put) await this.#cluster.contents.put(object);
    for (const { kind, name } of remove) await this.#cluster.contents.remove(kind, name);
  }

  async readObjects(): Promise<StoredState> {
    const { contents } = this.#cluster;
    const [calico, pods] = await Promise.all([contents.calicoObjects(), contents.podAnnotations()]);
    return { ...stateFromPlurals(calico), pods };
  }

  requests(): Promise<readonly string[]> {
    return this.#cluster.requests();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#servers.dispose();
  }
}
