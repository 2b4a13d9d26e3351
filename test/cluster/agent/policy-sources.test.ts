/**
 * The sources of policy on a real API server: what they ask for, what they tell and when, and what a tenant gains who writes another pod's
 * address into the annotations of its own pod: nothing.
 */
import { partsOfCluster } from "../../../agent/policy/sources/open.ts";
import { JoinedSources } from "../../../agent/policy/sources/sources.ts";
import { blockSelection } from "../../../lib/datastore/calico/block.ts";
import type { ApiConnection } from "../../../lib/kubernetes/client/connection.ts";
import { Informers, type WatchedServer } from "../../../lib/kubernetes/watch/informers.ts";
import { Tasks } from "../../../lib/resident/tasks.ts";
import { SYSTEM_CLOCK } from "../../../lib/system/waiting.ts";
import { fresh, shared } from "../../support/fixtures.ts";
import { ApiServerNode, NAMESPACE } from "../../support/kubernetes/api-server-node.ts";
import { UNREAD_DEFINITION, UNREAD_PATH, unreadPolicyOf } from "../../support/kubernetes/resources.ts";
import { type Fields, type Identity, LEGACY, startCluster, type V3 } from "../../support/kubernetes/test-cluster.ts";
import { until } from "../../support/kubernetes/until.ts";
import { ToldSink } from "../../support/told-sink.ts";
import { openConnection } from "./open-connection.ts";

const PODS = "/api/v1/pods";
const POD_IP = "cni.projectcalico.org/podIP";
const POD_IPS = "cni.projectcalico.org/podIPs";

const cluster = shared(startCluster);
const world = fresh(() => ApiServerNode.create(cluster, { pools: ["10.69.0.0/26"] }));
const proxy = fresh(() => cluster.proxy());

const makePolicy = (name: string, spec: Fields = { podSelector: {} }) => cluster.createPolicy(name, spec, NAMESPACE);
const removePolicy = (name: string) => cluster.remove("networking.k8s.io/v1", "networkpolicies", name, NAMESPACE);

/** Notes what the server sends about all pods, as it sends it. */
function tapped(connection: ApiConnection, heard: string[]): WatchedServer {
  return {
    server: connection.server,
    redact: (text) => connection.redact(text),
    async exchange(call, limitMs) {
      const answer = await connection.exchange(call, limitMs);
      if (call.path.startsWith(PODS)) heard.push(answer.body);
      return answer;
    },
    async stream(asked, signal, limitMs) {
      const response = await connection.stream(asked, signal, limitMs);
      if (!asked.path.startsWith(PODS) || response.body === null) return response;
      const decoder = new TextDecoder();
      const note = new TransformStream<Uint8Array, Uint8Array>({
        transform(chunk, controller) {
          heard.push(decoder.decode(chunk, { stream: true }));
          controller.enqueue(chunk);
        },
      });
      return new Response(response.body.pipeThrough(note), { status: response.status });
    },
  };
}

class Sources implements AsyncDisposable {
  readonly sink = new ToldSink();
  readonly joined: JoinedSources;
  /** What the server sent about pods. */
  readonly heard: string[] = [];
  readonly #stack: AsyncDisposableStack;

  private constructor(connection: ApiConnection & Disposable, stack: AsyncDisposableStack, proof: "blocks" | "ranges") {
    const server = tapped(connection, this.heard);
    const openInformers = () => new Informers(server);
    const [informers, tasks] = [stack.use(openInformers()), stack.use(new Tasks())];
    const group = async (): Promise<typeof LEGACY> => LEGACY;
    const blocks = (found: typeof LEGACY | typeof V3) => informers.watch(blockSelection(found));
    const parts = partsOfCluster({ connection, informers, openInformers, blocks, tasks, proof, group, clock: SYSTEM_CLOCK });
    this.joined = stack.use(new JoinedSources(parts));
    this.#stack = stack;
  }

  static async start(identity: Identity = "agent", proof: "blocks" | "ranges" = "blocks"): Promise<Sources> {
    const stack = new AsyncDisposableStack();
    const connection = stack.use(await openConnection(proxy, identity));
    const sources = new Sources(connection, stack, proof);
    sources.joined.start(sources.sink, () => {});
    return sources;
  }

  static async synced(proof: "blocks" | "ranges" = "blocks"): Promise<Sources> {
    const sources = await Sources.start("agent", proof);
    await sources.joined.untilSynced(AbortSignal.timeout(30_000));
    return sources;
  }

  addressOf(pod: string): string | undefined {
    return this.sink.addresses[`${NAMESPACE}/${pod}`]?.join();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

/** A pod that an ADD attaches. @returns its address */
async function attach(name: string, labels: Readonly<Record<string, string>> = {}): Promise<string> {
  await world.pod(name, { labels });
  const { ips } = await world.add(await world.callOf(name, name));
  return ips[0]?.address.replace(/\/.*/, "") ?? "";
}

const annotate = (token: string, pod: string, annotations: Readonly<Record<string, string>>, path = "") =>
  cluster.apiAs(token, "PATCH", `/api/v1/namespaces/${NAMESPACE}/pods/${pod}${path}`, { metadata: { annotations } });

/** The token of somebody who may do with pods of the namespace what the role `edit` allows: everything but their status. */
async function tenant(): Promise<string> {
  const metadata = { name: "tenant", namespace: NAMESPACE };
  await cluster.apply({ apiVersion: "v1", kind: "ServiceAccount", metadata });
  const rules = [{ apiGroups: [""], resources: ["pods"], verbs: ["get", "list", "create", "update", "patch", "delete"] }];
  await cluster.apply({ apiVersion: "rbac.authorization.k8s.io/v1", kind: "Role", metadata, rules });
  await cluster.apply({
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "RoleBinding",
    metadata,
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "tenant" },
    subjects: [{ kind: "ServiceAccount", name: "tenant", namespace: NAMESPACE }],
  });
  const token = await cluster.tokenOf("tenant", {}, NAMESPACE);
  await until("the role", async () => (await cluster.apiAs(token, "GET", `/api/v1/namespaces/${NAMESPACE}/pods`)).status === 200);
  return token;
}

describe("The sources of policy on a real API server", () => {
  it("A1: tell of policies, namespaces and pods, and of each change of them", async () => {
    await makePolicy("first", { podSelector: { matchLabels: { app: "web" } }, policyTypes: ["Ingress"] });
    const address = await attach("web", { app: "web" });
    await using sources = await Sources.synced();
    const { sink } = sources;
    expect(sink.policies.get(`${NAMESPACE}/first`)).toMatchObject({
      name: "first",
      spec: { podSelector: { matchLabels: { app: "web" } }, policyTypes: ["Ingress"] },
      uid: expect.stringMatching(/^[0-9a-f-]{36}$/),
    });
    expect(sink.namespaces.get(NAMESPACE)).toEqual({ "kubernetes.io/metadata.name": NAMESPACE });
    expect(sink.peers.get(`${NAMESPACE}/web`)).toMatchObject({ labels: { app: "web" }, ports: undefined });
    expect(sources.addressOf("web")).toBe(address);

    await cluster.createNamespace(NAMESPACE, {}, { team: "a" });
    await until("the namespace's label", () => sink.namespaces.get(NAMESPACE)?.team === "a");
    await cluster.api("PATCH", `/api/v1/namespaces/${NAMESPACE}/pods/web`, { metadata: { labels: { app: "x" } } });
    await until("the pod's label", () => sink.peers.get(`${NAMESPACE}/web`)?.labels.app === "x");
    const second = await attach("db");
    await until("the second pod", () => sources.addressOf("db") === second);
    await makePolicy("second");
    await until("the second policy", () => sink.policies.has(`${NAMESPACE}/second`));

    await world.call("DEL", await world.callOf("db", "db"));
    await until("the DEL", () => sources.addressOf("db") === undefined);
    await cluster.remove("v1", "pods", "web", NAMESPACE);
    await until("the deletion", () => sink.peers.size === 0);
    await removePolicy("first");
    await until("the policy's deletion", () => !sink.policies.has(`${NAMESPACE}/first`));
    await cluster.createNamespace("short-lived");
    await until("another namespace", () => sink.namespaces.has("short-lived"));
    await cluster.remove("v1", "namespaces", "short-lived");
    await until("its deletion", () => !sink.namespaces.has("short-lived"));
    expect([sources.joined.gap, sources.joined.conflicts(), sources.joined.refused()]).toEqual([undefined, [], []]);
  });

  it("get nothing of pods but their metadata, by list and by watch", async () => {
    await attach("listed");
    await using sources = await Sources.synced();
    await attach("watched");
    await until("the watched pod", () => sources.addressOf("watched") !== undefined);
    const text = sources.heard.join("");
    expect(text).toContain('"kind":"PartialObjectMetadataList"');
    expect(text).toContain('"kind":"PartialObjectMetadata"');
    for (const name of ["listed", "watched"]) expect(text).toContain(`"name":"${name}"`);
    for (const part of ['"spec":', '"status":', '"containers":', '"nodeName":']) expect(text).not.toContain(part);
    // The same question for whole pods has all of that in it.
    const whole = (await cluster.api("GET", PODS)).text;
    for (const part of ['"spec":', '"status":', '"containers":', '"nodeName":']) expect(whole).toContain(part);
  });

  it("watch whole pods while a policy names a port in egress", async () => {
    await world.pod("web", { ports: [{ name: "http", containerPort: 8080 }] });
    const call = await world.callOf("web", "web");
    await world.add(call);
    await using sources = await Sources.synced();
    sources.sink.needsPortsOfPeers = true;
    sources.joined.demand();
    await sources.joined.untilSynced(AbortSignal.timeout(30_000));
    const ports = () => sources.sink.peers.get(`${NAMESPACE}/web`)?.ports;
    expect(ports()).toEqual([{ name: "http", protocol: "TCP", port: 8080 }]);
    await cluster.remove("v1", "pods", "web", NAMESPACE);
    await until("the deletion", () => sources.sink.peers.size === 0);
  });

  it("find out of other kinds of policy that there are none, or how many", async () => {
    await using sources = await Sources.synced();
    await until("the answers", async () => proxy.requests.filter(({ path }) => path.endsWith("?limit=1")).length >= 7);
    expect([sources.joined.unread(), sources.joined.problems()]).toEqual([[], []]);
    await cluster.apply(UNREAD_DEFINITION);
    try {
      await until("the new kind", async () => (await cluster.api("GET", UNREAD_PATH)).status === 200);
      for (const name of ["one", "two"]) expect((await cluster.api("POST", UNREAD_PATH, unreadPolicyOf(name))).status).toBe(201);
      await using later = await Sources.synced();
      await until("the count", () => later.joined.unread().length === 1);
      expect(later.joined.unread()).toEqual([{ kind: "GlobalNetworkPolicy.crd.projectcalico.org", atLeast: 2 }]);
    } finally {
      await cluster.remove("apiextensions.k8s.io/v1", "customresourcedefinitions", UNREAD_DEFINITION.metadata.name);
    }
  });
});

describe("A tenant who may patch pods", () => {
  it("gets no other pod's address, no free one and no node's by annotations, and takes none from anybody", async () => {
    const [victims, own] = [await attach("victim"), await attach("mallory")];
    await using sources = await Sources.synced();
    const token = await tenant();
    const before = sources.sink.tellings;
    for (const forged of [victims, "10.69.0.63", "192.0.2.10", "8.8.8.8", "169.254.169.254"]) {
      expect((await annotate(token, "mallory", { [POD_IP]: `${forged}/32`, [POD_IPS]: `${forged}/32,${own}/32` })).status).toBe(200);
      if (forged !== "169.254.169.254") {
        await until(`the claim of ${forged}`, () => sources.joined.refused().some(({ address }) => address === forged));
      }
      expect([sources.addressOf("victim"), sources.addressOf("mallory")]).toEqual([victims, own]);
    }
    expect(sources.sink.tellings).toBe(before);
    expect(sources.joined.conflicts()).toEqual([]);
    // What would prove an address is not the tenant's to write.
    expect((await annotate(token, "mallory", {}, "/status")).status).toBe(403);
    expect((await cluster.apiAs(token, "GET", `/apis/${LEGACY}/ipamblocks`)).status).toBe(403);

    await annotate(token, "mallory", { [POD_IP]: "", [POD_IPS]: "" });
    await until("what it gives up itself", () => sources.addressOf("mallory") === undefined);
    expect(sources.addressOf("victim")).toBe(victims);
  });

  it("claims an address that no block has in vain, whatever its pod is, until kubelet says that it has it", async () => {
    const token = await tenant();
    await world.pod("mallory", { node: "node1" });
    await annotate(token, "mallory", { [POD_IP]: "172.31.0.9/32" });
    await using sources = await Sources.synced();
    await until("whole pods", () => sources.joined.refused()[0]?.reason.includes("its status names none") === true, 60_000);
    expect(sources.sink.peers.size).toBe(0);
    const path = `/api/v1/namespaces/${NAMESPACE}/pods/mallory/status`;
    const status = { phase: "Running", podIP: "172.31.0.9", podIPs: [{ ip: "172.31.0.9" }] };
    expect((await cluster.api("PATCH", path, { status })).status).toBe(200);
    await until("kubelet's word", () => sources.addressOf("mallory") === "172.31.0.9");
    expect(sources.joined.refused()).toEqual([]);
  });

  it("A4: makes two pods of host scope that claim one address, which is nobody's until kubelet has spoken", async () => {
    const token = await tenant();
    await cluster.createNode("node1", {}, { podCIDR: "10.8.1.0/24", podCIDRs: ["10.8.1.0/24"] });
    for (const name of ["honest", "mallory"]) await world.pod(name);
    await annotate(await cluster.tokenFor("cni"), "honest", { [POD_IP]: "10.8.1.5/32" }, "/status");
    await using sources = await Sources.synced("ranges");
    expect(sources.addressOf("honest")).toBe("10.8.1.5");
    await annotate(token, "mallory", { [POD_IP]: "10.8.1.5/32" });
    const pods = [`${NAMESPACE}/honest`, `${NAMESPACE}/mallory`];
    await until("the conflict", () => sources.joined.conflicts().length > 0);
    expect([sources.joined.conflicts(), sources.sink.peers.size]).toEqual([[{ address: "10.8.1.5", pods }], 0]);
    const status = { podIP: "10.8.1.5", podIPs: [{ ip: "10.8.1.5" }] };
    const path = `/api/v1/namespaces/${NAMESPACE}/pods/honest/status`;
    expect((await cluster.api("PATCH", path, { status })).status).toBe(200);
    await until("kubelet's word", () => sources.addressOf("honest") === "10.8.1.5");
    expect([sources.joined.conflicts(), sources.addressOf("mallory")]).toEqual([[], undefined]);
    await annotate(token, "mallory", { [POD_IP]: "10.8.2.5/32" });
    await until("a claim outside of the range", () => sources.joined.refused()[0]?.reason.includes("outside of its node's range") === true);
  });
});

describe("While the API server does not answer, the sources of policy", () => {
  it("keep everything, name the gap, and tell afterwards what has changed, by a new list too", async () => {
    await makePolicy("first");
    await makePolicy("second");
    const address = await attach("web");
    await using sources = await Sources.synced();
    const tellings = sources.sink.tellings;
    await proxy.refuse();
    await until("the gap", () => sources.joined.gap !== undefined);
    expect(sources.joined.gap).toMatch(/^changes of .* are not being heard of/);
    await removePolicy("first");
    await makePolicy("third");
    await cluster.remove("v1", "pods", "web", NAMESPACE);
    // A new API server remembers no events, and etcd no longer has those before the compaction.
    await cluster.compact();
    await cluster.restartApiServer();
    expect(sources.sink.tellings).toBe(tellings);
    expect([sources.addressOf("web"), sources.joined.isComplete]).toEqual([address, true]);

    await proxy.accept();
    await sources.joined.untilSynced(AbortSignal.timeout(60_000));
    await until("what changed", () => [...sources.sink.policies.keys()].sort().join() === `${NAMESPACE}/second,${NAMESPACE}/third`);
    await until("the deleted pod", () => sources.sink.peers.size === 0);
  });

  it("name what the account may not do, with the manifest that allows it", async () => {
    await using sources = await Sources.start("stranger");
    await until("the refusal", () => sources.joined.gap?.includes("forbidden") === true);
    expect(sources.joined.gap).toMatch(
      /^network policies have not been read yet: .*cannot list resource "networkpolicies" in API group "networking\.k8s\.io".*\(manifests\/node\/rbac\.yaml has the right\)$/,
    );
    await until("the other refusals", () => sources.joined.problems().length > 0);
    expect(sources.joined.problems()[0]).toContain("may not list NetworkPolicy (crd.projectcalico.org/v1, projectcalico.org/v3)");
    expect([sources.joined.isComplete, sources.sink.tellings]).toEqual([false, 0]);
  });
});
