/**
 * A real etcd and a real kube-apiserver for tests, with Calico's CRDs and the plugins' role from manifests/: `await using cluster =
 * await startCluster()`. See README.md beside this file. Everything it keeps is in one directory on the sandbox's own tmpfs.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { together } from "../judge/look.ts";
import { storeOfResources } from "../judge/servers.ts";
import type { SeenStore } from "../judge/world.ts";
import { AdminClient, type Answer, HARNESS_AGENT, type RequestOptions } from "./admin-client.ts";
import { type AuditedRequest, auditSize, parseRequestCounts, readAudit } from "./audit.ts";
import { makeCertificates, writeKubeconfig } from "./credentials.ts";
import { FaultProxy } from "./fault-proxy.ts";
import { ACCOUNTS, answersForEveryKind, type Identity, install, leaveBare } from "./install.ts";
import { memberAt } from "./json.ts";
import { knowsAffinities } from "./memory.ts";
import { ObjectStore } from "./object-store.ts";
import {
  type ApiObject,
  type CalicoGroup,
  type Fields,
  LEGACY,
  networkPolicyOf,
  type PodOptions,
  type PoolOptions,
  podOf,
  poolOf,
  type StoredObject,
  V3,
} from "./resources.ts";
import { keepUse, useOfServer } from "./role-use.ts";
import { freePorts, type Ports, Servers, serverPrograms } from "./servers.ts";
import { until } from "./until.ts";

export type { AuditedRequest } from "./audit.ts";
export { countsBetween } from "./audit.ts";
export type { Identity } from "./install.ts";
export { type ApiObject, type CalicoGroup, type Fields, LEGACY, type StoredObject, V3 } from "./resources.ts";

/** Where the Jest run's shared cluster is; set by global-setup.ts. */
export const SHARED_CLUSTER = "TORTIE_CLUSTER";

export interface ClusterOptions {
  /** Calico groups that are served; both when absent. */
  readonly groups?: readonly CalicoGroup[];
  /** A cluster of its own even where Jest has a shared one; implied by `groups`. */
  readonly own?: boolean;
  /** Nothing is installed, and pods need their service account, as in a cluster that somebody has just made; implies `own`. */
  readonly isBare?: boolean;
}

interface Coordinates {
  readonly ports: Ports;
  readonly programs: string;
  readonly groups: readonly CalicoGroup[];
  readonly isBare: boolean;
}

/** The Jest run's shared cluster where there is one and nothing special is asked for, else a new one (some 4 seconds). */
export async function startCluster(options: ClusterOptions = {}): Promise<TestCluster> {
  const shared = process.env[SHARED_CLUSTER];
  const { groups, own = false, isBare = false } = options;
  if (shared !== undefined && !own && !isBare && groups === undefined) return TestCluster.attach(shared);
  return TestCluster.create(groups ?? [LEGACY, V3], isBare);
}

export class TestCluster implements AsyncDisposable {
  readonly dir: string;
  readonly server: string;
  readonly port: number;
  readonly groups: readonly CalicoGroup[];
  readonly adminKubeconfig: string;
  readonly caPath: string;
  /** Reads and writes objects as the administrator. */
  readonly objects: ObjectStore;
  readonly #isShared: boolean;
  readonly #programs: string;
  readonly #client: AdminClient;
  readonly #servers: Servers;
  readonly #proxies: FaultProxy[] = [];
  #marks = 0;
  #files = 0;

  private constructor(dir: string, { ports, programs, groups, isBare }: Coordinates, isShared: boolean) {
    this.dir = dir;
    this.port = ports.api;
    this.server = `https://127.0.0.1:${ports.api}`;
    this.groups = groups;
    this.caPath = join(dir, "ca.crt");
    this.adminKubeconfig = join(dir, "admin.kubeconfig");
    this.#isShared = isShared;
    this.#programs = programs;
    this.#client = new AdminClient(this.server, dir);
    this.#servers = new Servers(dir, ports, this.#client, isBare);
    this.objects = new ObjectStore((method, path, body) => this.api(method, path, body));
  }

  /** @internal Use `startCluster`. */
  static async create(groups: readonly CalicoGroup[], isBare = false): Promise<TestCluster> {
    const programs = serverPrograms();
    // /run is the sandbox's own tmpfs, which ends with it, whatever happens.
    const dir = mkdtempSync("/run/tortie-cluster-");
    makeCertificates(dir);
    const coordinates = { ports: await freePorts(), programs, groups, isBare };
    const cluster = new TestCluster(dir, coordinates, false);
    try {
      cluster.#servers.startEtcd(programs);
      cluster.#servers.startApiServer(programs);
      await cluster.#servers.ready();
      if (isBare) await leaveBare(cluster);
      else await install(cluster);
      writeFileSync(join(dir, "cluster.json"), JSON.stringify(coordinates));
      return cluster;
    } catch (error) {
      const logs = cluster.#servers.logs();
      await cluster[Symbol.asyncDispose]();
      throw new Error(`no cluster: ${error instanceof Error ? error.message : String(error)}\n${logs}`);
    }
  }

  /** @internal Use `startCluster`. */
  static attach(dir: string): TestCluster {
    const coordinates: Coordinates = JSON.parse(readFileSync(join(dir, "cluster.json"), "utf8"));
    return new TestCluster(dir, coordinates, true);
  }

  /** One HTTP request as the administrator. `body` is sent as JSON, or as it is when it is a string; PATCH merges it. */
  api(method: string, path: string, body?: unknown, contentType?: string): Promise<Answer> {
    return this.#client.request(method, path, body, contentType === undefined ? {} : { contentType });
  }

  /** One HTTP request as somebody else. */
  apiAs(token: string, method: string, path: string, body?: unknown, options: Omit<RequestOptions, "token"> = {}): Promise<Answer> {
    return this.#client.request(method, path, body, { ...options, token });
  }

  apply(object: ApiObject): Promise<StoredObject> {
    return this.objects.apply(object);
  }
  get(apiVersion: string, plural: string, name: string, namespace?: string): Promise<StoredObject | undefined> {
    return this.objects.get(apiVersion, plural, name, namespace);
  }
  list(apiVersion: string, plural: string, namespace?: string): Promise<readonly StoredObject[]> {
    return this.objects.list(apiVersion, plural, namespace);
  }
  remove(apiVersion: string, plural: string, name: string, namespace?: string): Promise<void> {
    return this.objects.remove(apiVersion, plural, name, namespace);
  }
  createPod(name: string, options: PodOptions = {}): Promise<StoredObject> {
    return this.apply(podOf(name, options));
  }
  createPool(name: string, options: PoolOptions = {}): Promise<StoredObject> {
    return this.apply(poolOf(name, options));
  }
  createPolicy(name: string, spec: Fields, namespace = "default"): Promise<StoredObject> {
    return this.apply(networkPolicyOf(name, spec, namespace));
  }
  createNode(
    name: string,
    labels: Readonly<Record<string, string>> = {},
    spec: Readonly<Record<string, unknown>> = {},
  ): Promise<StoredObject> {
    return this.apply({ apiVersion: "v1", kind: "Node", metadata: { name, labels }, spec });
  }
  createNamespace(
    name: string,
    annotations: Readonly<Record<string, string>> = {},
    labels: Readonly<Record<string, string>> = {},
  ): Promise<StoredObject> {
    return this.apply({ apiVersion: "v1", kind: "Namespace", metadata: { name, annotations, labels } });
  }

  /** ClusterInformation `default` of every group that is served: whether plugins may work. */
  async setReady(isReady: boolean): Promise<void> {
    const spec = { clusterGUID: "test", datastoreReady: isReady };
    for (const apiVersion of this.groups) await this.apply({ apiVersion, kind: "ClusterInformation", metadata: { name: "default" }, spec });
  }

  /** For the judge: the IPAM objects of every group, as they are stored. */
  async lookAtStore(): Promise<SeenStore> {
    const lists = await Promise.all(
      this.groups.map(async (group) => {
        const [blocks, handles] = await Promise.all([this.list(group, "ipamblocks"), this.list(group, "ipamhandles")]);
        return storeOfResources(
          blocks.map(({ spec }) => spec),
          handles.map(({ spec }) => spec),
        );
      }),
    );
    return together(lists);
  }

  /** Deletes every Calico and KubeVirt object, network policy, pod, node, and namespace that a test made. The datastore is then not ready (`setReady`). */
  reset(): Promise<void> {
    return this.objects.wipe(this.groups);
  }

  /**
   * A new kubeconfig file.
   *
   * @param server another URL than the API server's, for instance a fault proxy's
   */
  async kubeconfigFor(identity: Identity, server = this.server): Promise<string> {
    const path = join(this.dir, `${identity}-${process.pid}-${++this.#files}.kubeconfig`);
    writeKubeconfig(path, server, this.caPath, { token: await this.tokenFor(identity) });
    return path;
  }

  /** A bearer token, made by TokenRequest. `seconds` cannot be less than 600. */
  tokenFor(identity: Identity, seconds = 3600): Promise<string> {
    return this.tokenOf(ACCOUNTS[identity], { expirationSeconds: seconds });
  }

  /** The token of any service account. @param spec of the TokenRequest */
  async tokenOf(account: string, spec: Fields = {}, namespace = "kube-system"): Promise<string> {
    const body = { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec };
    const answer = await this.api("POST", `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`, body);
    const token = memberAt(answer.body, "status", "token");
    if (typeof token !== "string") throw new Error(`no token: ${answer.status} ${answer.text}`);
    return token;
  }

  /** What was asked of the server, by the time it arrived, without the harness's own requests. `since` is from `mark()`. */
  async requests(since = 0): Promise<readonly AuditedRequest[]> {
    await this.#auditIsComplete();
    return readAudit(this.#auditLog, since).filter((request) => request.userAgent !== HARNESS_AGENT);
  }

  /** A place in the audit log: everything that was answered before is before it, and the lists that plugins ask for know of it. */
  async mark(): Promise<number> {
    for (const group of this.groups) await knowsAffinities(group, (path) => this.api("GET", path));
    await this.#auditIsComplete();
    return auditSize(this.#auditLog);
  }

  /** The server's counters, the harness's requests included; take the difference of two with `countsBetween`. */
  async requestCounts(): Promise<ReadonlyMap<string, number>> {
    return parseRequestCounts((await this.api("GET", "/metrics")).text);
  }

  /** A TLS-terminating proxy before the server, for faults on the way. It ends with the cluster, or when it is disposed of. */
  async proxy(): Promise<FaultProxy> {
    const proxy = await FaultProxy.start(this);
    this.#proxies.push(proxy);
    return proxy;
  }

  /** Kills the API server; its port refuses connections then. What it stored stays. */
  stopApiServer(): Promise<void> {
    return this.#servers.stopApiServer();
  }

  /** Starts the API server and waits until it is ready and answers for every kind. */
  async startApiServer(): Promise<void> {
    this.#servers.startApiServer(this.#programs);
    await this.#servers.ready();
    await answersForEveryKind(this);
  }

  async restartApiServer(): Promise<void> {
    await this.stopApiServer();
    await this.startApiServer();
  }

  /** etcd forgets its history: a watch cannot begin in the past then, once the API server has been restarted. */
  compact(): Promise<void> {
    return this.#servers.compact();
  }

  /** SIGSTOP: connections are accepted by the kernel, and nothing answers. */
  freeze(): void {
    this.#servers.signalApiServer("SIGSTOP");
  }

  thaw(): void {
    this.#servers.signalApiServer("SIGCONT");
  }

  /** Ends an own cluster. A shared one is left running, for the next test file. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#proxies.map((proxy) => proxy[Symbol.asyncDispose]()));
    if (this.#isShared) {
      this.thaw();
      if (!this.#servers.isApiServerRunning()) await this.startApiServer();
      return;
    }
    await this.#servers.stopAll();
    keepUse(useOfServer(this.dir));
    rmSync(this.dir, { recursive: true, force: true });
  }

  get #auditLog(): string {
    return join(this.dir, "audit.log");
  }

  /** A line may be written a moment after its answer was sent; one of our own behind it says that it is there. */
  async #auditIsComplete(): Promise<void> {
    const uri = `/version?mark=${process.pid}-${++this.#marks}-${Date.now()}`;
    const from = auditSize(this.#auditLog);
    await this.api("GET", uri);
    await until(`${uri} in the audit log`, () => readAudit(this.#auditLog, from).some((request) => request.uri === uri));
    // An answer may be out before its line is in the log, and another connection's line overtake it: wait until nothing is added.
    for (let size = -1; size !== auditSize(this.#auditLog); ) {
      size = auditSize(this.#auditLog);
      await Bun.sleep(30);
    }
  }
}
