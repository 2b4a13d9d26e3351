/**
 * A real etcd as a replay store, with a real API server beside it for scenarios with pods. Keys are put and read by plain requests to
 * etcd, never by our own client.
 */
import type { TestEtcd } from "../../../support/etcd/etcd.ts";
import { type JsonRecord, parseJson, printJson, recordOf, textOf, without } from "../../compare/json.ts";
import type { Recording } from "../../recording/recording.ts";
import type { StoredObject } from "../../recording/stored-object.ts";
import { type StoredState, stateFromEtcd } from "../../recording/stored-state.ts";
import { forward } from "../../sandbox/loopback-servers.ts";
import type { Sandbox } from "../../sandbox/sandbox.ts";
import { writeKubeconfigs } from "../kubernetes/access.ts";
import type { ReplayCluster } from "../kubernetes/cluster.ts";
import type { ReplayStore, StoreKind } from "../replay-store.ts";

/** Ports on the sandbox's 127.0.0.1. */
const ETCD_PORT = 2379;
const API_PORT = 6443;
/** What only an API server keeps. */
const OF_KUBERNETES = ["Namespace", "Pod"];

/** @param cluster absent: scenarios without pods only */
export function etcdStore(etcd: TestEtcd, cluster: ReplayCluster | undefined): StoreKind {
  return {
    open: (sandbox, recording) => EtcdReplayStore.open(etcd, cluster, sandbox, recording),
    comparable: (recorded) => recorded,
  };
}

class EtcdReplayStore implements ReplayStore {
  readonly places: ReadonlyMap<string, string> = new Map([["{{etcd}}", `127.0.0.1:${ETCD_PORT}`]]);
  readonly volatile: ReadonlyMap<string, string> = new Map();
  readonly #etcd: TestEtcd;
  readonly #cluster: ReplayCluster | undefined;
  readonly #servers: DisposableStack;

  private constructor(etcd: TestEtcd, cluster: ReplayCluster | undefined, servers: DisposableStack) {
    this.#etcd = etcd;
    this.#cluster = cluster;
    this.#servers = servers;
  }

  static async open(etcd: TestEtcd, cluster: ReplayCluster | undefined, sandbox: Sandbox, recording: Recording): Promise<EtcdReplayStore> {
    using servers = new DisposableStack();
    servers.use(forward(sandbox, ETCD_PORT, Number(new URL(etcd.endpoints).port)));
    const needsCluster = recording.objects.some(({ kind }) => kind === "Pod");
    if (needsCluster && cluster === undefined) throw new Error(`${recording.name} needs an API server`);
    if (cluster !== undefined && needsCluster) {
      servers.use(forward(sandbox, API_PORT, cluster.port));
      await writeKubeconfigs(sandbox, cluster, `https://127.0.0.1:${API_PORT}`, recording);
    }
    return new EtcdReplayStore(etcd, needsCluster ? cluster : undefined, servers.move());
  }

  /** Nothing has to be changed: the recordings' store is this one. */
  rewriteNetconf(stdin: JsonRecord | string): string {
    return typeof stdin === "string" ? stdin : printJson(stdin);
  }

  async seed(objects: readonly StoredObject[]): Promise<void> {
    await this.#etcd.clear();
    await this.#cluster?.contents.replace(objects.filter(({ kind }) => OF_KUBERNETES.includes(kind) || kind === "Node"));
    await this.#put(objects);
  }

  async applyChange(put: readonly StoredObject[], remove: readonly { readonly kind: string; readonly name: string }[]): Promise<void> {
    await this.#put(put);
    for (const { kind, name } of remove) {
      const key = `${ROOT}/${pluralOf(kind)}/${name}`;
      await this.#etcd.ask("/v3/kv/deleterange", { key: btoa(key) });
    }
  }

  async readObjects(): Promise<StoredState> {
    const values: Record<string, JsonRecord> = {};
    for (const [key, value] of await this.#etcd.contents()) values[key] = withTokens(recordOf(parseJson(value)));
    return stateFromEtcd(values);
  }

  readonly agentFlags = ["--datastore-type", "etcdv3"];

  async requests(): Promise<undefined> {
    return undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#servers.dispose();
  }

  async #put(objects: readonly StoredObject[]): Promise<void> {
    for (const object of objects) {
      if (OF_KUBERNETES.includes(object.kind)) continue;
      const [key, value] = pairOf(object);
      await this.#etcd.put(key, printJson(value));
    }
  }
}

const ROOT = "/calico/resources/v3/projectcalico.org";
const IPAM = "/calico/ipam/v2";

function pluralOf(kind: string): string {
  return `${kind.toLowerCase()}s`;
}

/** The key and the value that an object was recorded with (stored-object.ts reads them). */
function pairOf({ kind, name, labels, spec }: StoredObject): readonly [string, JsonRecord] {
  const cidr = textOf(spec.cidr);
  switch (kind) {
    case "IPAMBlock":
      return [`${IPAM}/assignment/ipv${cidr.includes(":") ? 6 : 4}/block/${cidr.replace("/", "-")}`, spec];
    case "IPAMHandle":
      return [`${IPAM}/handle/${name}`, without(spec, "handleID")];
    case "BlockAffinity":
      return [name, without(spec, "node", "cidr", "type")];
    case "IPAMConfig":
      return [`${IPAM}/config`, without(spec, "strictAffinity", "autoAllocateBlocks")];
    default: {
      const metadata = { name, ...(Object.keys(labels).length === 0 ? {} : { labels }) };
      return [`${ROOT}/${pluralOf(kind)}/${name}`, { kind, apiVersion: "projectcalico.org/v3", metadata, spec }];
    }
  }
}

/** What every writer chooses for itself becomes what recordings have there. */
function withTokens(value: JsonRecord): JsonRecord {
  const metadata = recordOf(value.metadata);
  if (metadata.uid === undefined) return value;
  return { ...value, metadata: { ...metadata, uid: "{{uid}}", creationTimestamp: "{{creationTimestamp}}" } };
}
