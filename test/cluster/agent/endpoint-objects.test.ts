/** Endpoint objects on a real API server, as the agent's own account: made once, mended, replaced by UID, never another's (A§6.3, A§6.4). */

import { readdirSync } from "node:fs";
import { type ObjectEndpoint, PLURAL } from "../../../agent/objects/endpoint-object.ts";
import { customObjects } from "../../../agent/objects/object-api.ts";
import { endpointObjects } from "../../../agent/objects/start.ts";
import type { NumberedLabels } from "../../../agent/policy/identities/lookup.ts";
import type { ApiConnection } from "../../../lib/kubernetes/client/connection.ts";
import type { Pod } from "../../../lib/kubernetes/objects.ts";
import { decodePod } from "../../../lib/kubernetes/objects.ts";
import { Informers } from "../../../lib/kubernetes/watch/informers.ts";
import type { Selection } from "../../../lib/kubernetes/watch/kubernetes-feed.ts";
import type { ResourceCache } from "../../../lib/kubernetes/watch/resource-cache.ts";
import { Tasks } from "../../../lib/resident/tasks.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { ending, fresh, shared, TemporaryDirectory } from "../../support/fixtures.ts";
import { pause } from "../../support/kubernetes/process.ts";
import type { PodOptions } from "../../support/kubernetes/resources.ts";
import { type Fields, type StoredObject, startCluster } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { openConnection } from "./open-connection.ts";

const API_VERSION = "tortie.dev/v1alpha1";
const NODE = "node-a";

/** Informers whose caches a test can look into. */
class KeptInformers extends Informers {
  readonly caches: ResourceCache<unknown>[] = [];

  override watch<T>(selection: Selection<T>): ResourceCache<T> {
    const cache = super.watch(selection);
    this.caches.push(cache);
    return cache;
  }
}

/** The part of an agent that these tests are about; its controllers' time is the test's. */
class Agent implements AsyncDisposable {
  readonly clock = new FakeClock();
  readonly endpoints = new Map<number, ObjectEndpoint>();
  readonly findings = new Map<string, string>();
  /** Of every pod. */
  identity: NumberedLabels | undefined;
  readonly objects: ReturnType<typeof endpointObjects>;
  readonly pods: ResourceCache<Pod>;
  readonly #controllers = new Tasks({ clock: this.clock });
  readonly #informers: KeptInformers;

  constructor(connection: ApiConnection, jobsDirectory: string) {
    this.#informers = new KeptInformers(connection);
    this.pods = this.#informers.watch({
      name: "pods",
      path: "/api/v1/pods",
      fieldSelector: `spec.nodeName=${NODE}`,
      decode: decodePod,
    });
    this.objects = endpointObjects({
      node: { name: NODE, address: "192.0.2.7" },
      jobsDirectory,
      custom: customObjects(connection),
      informers: this.#informers,
      controllers: this.#controllers,
      clock: this.clock,
      qps: 1000,
      source: {
        endpoints: () => [...this.endpoints.values()],
        pod: (key) => this.pods.get(key),
        identity: () => this.identity,
        remember: (id, object) => {
          const endpoint = this.endpoints.get(id);
          if (endpoint !== undefined) this.endpoints.set(id, { ...endpoint, object });
        },
      },
      isRestored: () => true,
      onProblem: () => {},
      onFinding: (key, finding) => (finding === undefined ? this.findings.delete(key) : this.findings.set(key, finding)),
    });
  }

  /** The caches are complete, and follow. */
  async ready(): Promise<void> {
    await until("the caches", () => this.#informers.states().every(({ followedSince }) => followedSince !== undefined));
  }

  /** An endpoint is committed, and its pod known. */
  async add(endpoint: ObjectEndpoint): Promise<void> {
    await until("the pod in the cache", () => this.pods.get(endpoint.pod)?.uid === endpoint.podUID);
    this.endpoints.set(endpoint.id, endpoint);
    this.objects.changed(endpoint);
  }

  /** The pod's object was made, and the watch has shown it. */
  async hasMade(id: number): Promise<void> {
    const pod = this.endpoints.get(id)?.pod ?? "";
    await until("the object's uid in the record", () => this.endpoints.get(id)?.object !== undefined);
    await until("the object in the cache", () => this.#informers.caches.at(-1)?.get(pod) !== undefined);
  }

  async remove(id: number): Promise<void> {
    const endpoint = this.endpoints.get(id);
    if (endpoint === undefined) throw new Error(`no endpoint ${id}`);
    this.endpoints.delete(id);
    await this.objects.removed(endpoint);
  }

  get statuses() {
    return this.#controllers.statuses();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#controllers[Symbol.asyncDispose]();
    await this.#informers[Symbol.asyncDispose]();
  }
}

const cluster = shared(startCluster);
beforeEach(() => cluster.reset());
const proxy = fresh(() => cluster.proxy());
const connection = fresh(() => openConnection(proxy, "agent"));
const jobs = fresh(() => new TemporaryDirectory());

async function startAgent(): Promise<Agent> {
  const agent = ending(new Agent(connection, jobs.path));
  await agent.ready();
  return agent;
}

const stored = (name = "web") => cluster.get(API_VERSION, PLURAL, name, "default");
/** What was asked about endpoint objects, watches and their lists aside. */
const asked = () =>
  proxy.requests.filter(({ path }) => path.includes(`/${PLURAL}`) && !path.includes("labelSelector")).map(({ method }) => method);

function endpointOf(pod: StoredObject, id = 12, containerId = "c1"): ObjectEndpoint {
  return {
    id,
    attachment: { network: "k8s-pod-network", containerId, ifname: "eth0" },
    pod: `default/${pod.metadata.name}`,
    podUID: pod.metadata.uid,
    addresses: [
      { address: "10.60.0.4", family: 4, grant: "block", handle: `k8s-pod-network.${containerId}` },
      { address: "fd00::4", family: 6, grant: "block", handle: `k8s-pod-network.${containerId}` },
    ],
    committedAt: "2030-01-01T00:00:00Z",
    state: "ready",
  };
}

/** An agent that has made the object of the pod `web`. */
async function agentWithObject(options: PodOptions = {}): Promise<{ readonly pod: StoredObject; readonly agent: Agent }> {
  const pod = await cluster.createPod("web", { node: NODE, ...options });
  const agent = await startAgent();
  await agent.add(endpointOf(pod));
  await agent.hasMade(12);
  return { pod, agent };
}

/** An object as the agent of some node has made it. */
function putObject(node: string, spec: Fields, name = "web"): Promise<StoredObject> {
  const metadata = { name, namespace: "default", labels: { "tortie.dev/node": node } };
  return cluster.apply({ apiVersion: API_VERSION, kind: "TortieEndpoint", metadata, spec: { node, ...spec } });
}

/** Lets the controllers' time pass, run by run, until it is so. */
async function eventually(agent: Agent, what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
  await until(what, async () => {
    await agent.clock.advance(10_000);
    for (let look = 0; look < 20; look++) {
      if (await isSo()) return true;
      await pause(20);
    }
    return false;
  });
}

describe("A-O01: an ADD, then three builds that change nothing", () => {
  it("makes the object with one CREATE, and asks nothing more for a minute", async () => {
    const { pod, agent } = await agentWithObject({ ports: [{ name: "http", containerPort: 80 }] });

    for (let build = 0; build < 3; build++) agent.objects.changed({ id: 12 });
    await agent.clock.advance(60_000);

    expect(asked()).toEqual(["POST"]);
    const object = await stored();
    expect(object).toMatchObject({
      metadata: {
        labels: { "tortie.dev/node": NODE },
        ownerReferences: [{ apiVersion: "v1", kind: "Pod", name: "web", uid: pod.metadata.uid }],
      },
      spec: {
        id: 12,
        node: NODE,
        podUID: pod.metadata.uid,
        containerID: "c1",
        networking: { node: "192.0.2.7", addressing: [{ ipv4: "10.60.0.4", ipv6: "fd00::4" }] },
        addresses: [
          { address: "10.60.0.4", family: 4, grant: "block", handle: "k8s-pod-network.c1" },
          { address: "fd00::4", family: 6, grant: "block", handle: "k8s-pod-network.c1" },
        ],
        "named-ports": [{ name: "http", port: 80, protocol: "TCP" }],
      },
      status: { state: "ready" },
    });
    expect(agent.endpoints.get(12)?.object?.uid).toBe(object?.metadata.uid);
  });

  it("has the number of the pod's labels as soon as there is one", async () => {
    const { agent } = await agentWithObject();
    agent.identity = { number: 0, labels: ["k8s:app=web"] };
    await agent.clock.advance(10_000);
    expect((await stored())?.spec).not.toHaveProperty("identity");
    agent.identity = { number: 70_000, labels: ["k8s:app=web"] };
    await eventually(agent, "the number", async () => (await stored())?.spec?.identity !== undefined);
    expect((await stored())?.spec?.identity).toEqual({ id: 70_000, labels: ["k8s:app=web"] });
    await agent.clock.advance(30_000);
    expect(asked()).toEqual(["POST", "PATCH"]);
  });

  it("writes a state that is not ready, and nothing else then", async () => {
    const { pod, agent } = await agentWithObject();
    agent.endpoints.set(12, { ...endpointOf(pod), object: agent.endpoints.get(12)?.object ?? { uid: "" }, state: "not-ready" });
    agent.objects.changed({ id: 12 });
    await until("the state", async () => (await stored())?.status?.state === "not-ready");
    expect(asked()).toEqual(["POST", "PATCH"]);
  });

  it("shows its problem in the table that kubectl prints, and no longer when it is mended", async () => {
    const { pod, agent } = await agentWithObject();
    const shown = async () => {
      const answer = await connection.exchange({
        ...{ method: "GET", path: `/apis/${API_VERSION}/namespaces/default/${PLURAL}` },
        accept: "application/json;as=Table;v=v1;g=meta.k8s.io",
      });
      const table: { columnDefinitions: { name: string }[]; rows: { cells: unknown[] }[] } = JSON.parse(answer.body);
      return Object.fromEntries(table.columnDefinitions.map(({ name }, index) => [name, table.rows[0]?.cells[index]]));
    };
    const well = { ...endpointOf(pod), object: agent.endpoints.get(12)?.object ?? { uid: "" } };
    agent.endpoints.set(12, { ...well, state: "not-ready", problem: "the route is missing" });
    agent.objects.changed({ id: 12 });
    await until("the problem", async () => (await stored())?.status?.problem !== undefined);
    expect(await shown()).toMatchObject({
      ...{ Name: "web", Node: NODE, State: "not-ready", IPv4: "10.60.0.4", IPv6: "fd00::4", Problem: "the route is missing" },
      ...{ Age: expect.any(String), Endpoint: 12, Container: "c1" },
    });
    agent.endpoints.set(12, well);
    agent.objects.changed({ id: 12 });
    await until("the end of the problem", async () => (await stored())?.status?.problem === undefined);
    expect(await shown()).toMatchObject({ State: "ready", Problem: null });
  });
});

describe("A-O02: an object that is not as it should be", () => {
  it("is made anew when somebody has deleted it", async () => {
    const { agent } = await agentWithObject();
    const first = (await stored())?.metadata.uid;
    await cluster.remove(API_VERSION, PLURAL, "web", "default");
    await eventually(agent, "another object", async () => ![undefined, first].includes((await stored())?.metadata.uid));
  });

  it("is mended when somebody has changed it, and keeps its uid", async () => {
    const { agent } = await agentWithObject();
    const before = await stored();
    const path = `/apis/${API_VERSION}/namespaces/default/${PLURAL}/web`;
    const foreign = { spec: { containerID: "wrong", networking: null, identity: { id: 7 } } };
    expect((await cluster.api("PATCH", path, foreign)).status).toBe(200);
    await eventually(agent, "the right content", async () => Bun.deepEquals((await stored())?.spec, before?.spec));
    expect((await stored())?.metadata.uid).toBe(before?.metadata.uid);
  });

  it("is replaced when it is of an earlier pod of the name", async () => {
    await putObject(NODE, { id: 3, podUID: "earlier", containerID: "c0" });
    const old = (await stored())?.metadata.uid;
    const pod = await cluster.createPod("web", { node: NODE });
    const agent = await startAgent();
    await agent.add(endpointOf(pod));
    await eventually(agent, "an object of this pod", async () => (await stored())?.spec?.podUID === pod.metadata.uid);
    expect((await stored())?.metadata.uid).not.toBe(old);
  });

  it("is left alone and reported when another node has made it for the same pod", async () => {
    const pod = await cluster.createPod("web", { node: NODE });
    const foreign = await putObject("node-b", { id: 3, podUID: pod.metadata.uid, containerID: "c0" });
    const agent = await startAgent();
    await agent.add(endpointOf(pod));
    await eventually(agent, "the finding", () => agent.findings.has("endpoint-object default/web"));
    expect(agent.findings.get("endpoint-object default/web")).toContain("node-b");
    await agent.clock.advance(60_000);
    expect((await stored())?.metadata.resourceVersion).toBe(foreign.metadata.resourceVersion);
  });

  it("shows the newer of two sandboxes of a pod, and stays when the older one ends", async () => {
    const { pod, agent } = await agentWithObject();
    const first = await stored();
    await agent.add({ ...endpointOf(pod, 13, "c2"), committedAt: "2030-01-01T00:00:05Z" });
    await eventually(agent, "the newer sandbox", async () => (await stored())?.spec?.containerID === "c2");
    await agent.remove(12);
    await agent.clock.advance(60_000);
    expect(await stored()).toMatchObject({ metadata: { uid: first?.metadata.uid }, spec: { id: 13 } });
    await agent.remove(13);
    await eventually(agent, "the end of the object", async () => (await stored()) === undefined);
  });
});

describe("A-O03: a deletion that fails for ten minutes", () => {
  it("never hits the object of the pod's successor, and is over when the old object is gone", async () => {
    const { agent } = await agentWithObject();
    proxy.on({ method: "DELETE", times: Number.POSITIVE_INFINITY }, { kind: "answer", status: 500 });
    await agent.remove(12);
    expect(readdirSync(jobs.path)).toHaveLength(1);
    await eventually(agent, "a failed deletion", () => asked().includes("DELETE"));
    for (let minute = 0; minute < 10; minute++) await agent.clock.advance(60_000);

    // The pod is made again elsewhere; the agent of that node has replaced the object.
    await cluster.remove("v1", "pods", "web", "default");
    await cluster.remove(API_VERSION, PLURAL, "web", "default");
    const successor = await cluster.createPod("web", { node: "node-b" });
    const theirs = await putObject("node-b", { id: 5, podUID: successor.metadata.uid, containerID: "c9" });
    await agent[Symbol.asyncDispose]();
    proxy.clear();

    const restarted = await startAgent();
    await eventually(restarted, "the end of the job", () => readdirSync(jobs.path).length === 0);
    expect((await stored())?.metadata.uid).toBe(theirs.metadata.uid);
    expect(proxy.requests.filter(({ method }) => method === "DELETE").map(({ status }) => status)).toEqual([409]);
  });

  it("is carried out by the next process when this one ended first", async () => {
    const { agent } = await agentWithObject();
    proxy.on({ method: "DELETE", times: Number.POSITIVE_INFINITY }, { kind: "answer", status: 503 });
    await agent.remove(12);
    await agent[Symbol.asyncDispose]();
    proxy.clear();
    await startAgent();
    await until("the end of the object", async () => (await stored()) === undefined);
    await until("the end of the job", () => readdirSync(jobs.path).length === 0);
  });
});

describe("A-O04: a conflict on each write", () => {
  it("is met with pauses: less than a request a second for an endpoint", async () => {
    const { pod, agent } = await agentWithObject();
    proxy.on({ method: "PATCH", times: Number.POSITIVE_INFINITY }, { kind: "answer", status: 409 });
    const before = asked().length;
    agent.endpoints.set(12, { ...endpointOf(pod, 12, "c3"), object: agent.endpoints.get(12)?.object ?? { uid: "" } });
    agent.objects.changed({ id: 12 });
    const isIdle = () => proxy.requests.every(({ status, path }) => status !== undefined || path.includes("watch=true"));
    const failures = () => agent.statuses.find(({ name }) => name.includes("(12)"))?.status["failure-count"] ?? 0;
    await until("the first conflict", () => failures() > 0);
    const seconds = 60;
    for (let second = 0; second < seconds; second++) {
      await agent.clock.advance(1_000);
      await until("the answers", isIdle);
      await pause(5);
    }
    expect(failures()).toBeGreaterThanOrEqual(3);
    expect(asked().length - before).toBeLessThanOrEqual(seconds);
  });
});

describe("objects that nobody stands behind", () => {
  it("go after two looks a minute apart, those of other nodes stay", async () => {
    const spec = { id: 3, podUID: "gone", containerID: "c0" };
    await putObject(NODE, spec, "mine");
    await putObject("node-b", spec, "theirs");
    const agent = await startAgent();
    await agent.clock.advance(59_000);
    expect(asked()).toEqual([]);
    await eventually(agent, "the end of the leftover", async () => (await stored("mine")) === undefined);
    expect(await stored("theirs")).toMatchObject({ spec: { ...spec, node: "node-b" } });
  });
});
