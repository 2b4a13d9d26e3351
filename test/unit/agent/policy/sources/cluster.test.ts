/** What the sources of policy tell of an API server's objects, how soon, and what they say while it does not answer. */

import { type ClusterInput, partsOfCluster } from "../../../../../agent/policy/sources/open.ts";
import { JoinedSources, type SourcePart } from "../../../../../agent/policy/sources/sources.ts";
import { blockSelection } from "../../../../../lib/datastore/calico/block.ts";
import type { ApiGroup } from "../../../../../lib/datastore/calico/codec.ts";
import type { Fields } from "../../../../../lib/json/decode.ts";
import { Informers } from "../../../../../lib/kubernetes/watch/informers.ts";
import { Tasks } from "../../../../../lib/resident/tasks.ts";
import { NEVER } from "../../../../../lib/system/waiting.ts";
import { address } from "../../../../support/addresses.ts";
import { FakeClock, settled } from "../../../../support/fake-clock.ts";
import { ending, fresh } from "../../../../support/fixtures.ts";
import { ToldSink } from "../../../../support/told-sink.ts";
import { WatchedApi } from "../../../../support/watched-api.ts";

const POLICIES = "/apis/networking.k8s.io/v1/networkpolicies";
const NAMESPACES = "/api/v1/namespaces";
const PODS = "/api/v1/pods";
const NODES = "/api/v1/nodes";
const BLOCKS = "/apis/crd.projectcalico.org/v1/ipamblocks";
const SPEC = { podSelector: {}, policyTypes: ["Ingress"] };

interface PodChange {
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly deletionTimestamp?: string;
  readonly spec?: Fields;
  readonly status?: Fields;
}

class World implements AsyncDisposable {
  readonly api = new WatchedApi();
  readonly clock = new FakeClock();
  readonly sink = new ToldSink();
  readonly logged: string[] = [];
  changes = 0;
  /** Asked for the group of Calico's objects. */
  group: ClusterInput["group"] = async () => "crd.projectcalico.org/v1";
  readonly sources: JoinedSources;
  readonly #others: Informers;
  readonly #parts = new AsyncDisposableStack();
  #blocks: ReturnType<ClusterInput["blocks"]> | undefined;

  constructor(proof: ClusterInput["proof"] = "blocks", others: readonly SourcePart[] = []) {
    const open = () => new Informers(this.api, { clock: this.clock, onProblem: (problem) => this.logged.push(problem) });
    const [informers, tasks] = [open(), new Tasks({ clock: this.clock })];
    this.#others = this.#parts.use(open());
    const parts = partsOfCluster({
      connection: this.api,
      informers,
      openInformers: open,
      blocks: (found) => this.watchBlocks(found),
      tasks,
      proof,
      group: () => this.group(),
      clock: this.clock,
    });
    this.sources = new JoinedSources([...parts, ...others], this.clock);
    for (const one of [informers, tasks, this.sources]) this.#parts.use(one);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#parts.disposeAsync();
  }

  /** As the agent does, once for all who ask, over a connection that outlives policy. */
  watchBlocks(group: ApiGroup = "crd.projectcalico.org/v1"): ReturnType<ClusterInput["blocks"]> {
    this.#blocks ??= this.#others.watch(blockSelection(group));
    return this.#blocks;
  }

  async start(): Promise<void> {
    this.sources.start(this.sink, () => this.changes++);
    await settled();
  }

  pod(name: string, claim: string, change: PodChange = {}): void {
    const { spec = {}, status = {}, annotations = {}, ...metadata } = change;
    const claims = { "cni.projectcalico.org/podIP": claim, "cni.projectcalico.org/podIPs": claim, ...annotations };
    this.api.put(PODS, { metadata: { name, namespace: "shop", annotations: claims, ...metadata }, spec, status });
  }

  /** A /30 from 10.1.0.4 on whose addresses these pods have. */
  block(...pods: readonly string[]): void {
    const attributes = pods.map((pod) => ({ handle_id: `net.${pod}`, secondary: { namespace: "shop", pod, node: "node1" } }));
    const allocations = [0, 1, 2, 3].map((ordinal) => (ordinal < pods.length ? ordinal : null));
    const spec = { cidr: "10.1.0.4/30", affinity: "host:node1", allocations, attributes, unallocated: [] };
    this.api.put(BLOCKS, { metadata: { name: "10-1-0-4-30" }, spec });
  }

  asked(path: string): readonly string[] {
    return this.api.asked.filter(({ target }) => target.startsWith(`${path}?`)).map(({ accept }) => accept ?? "whole");
  }
}

const world = fresh(() => new World());

describe("Sources of a cluster with blocks", () => {
  it("tell of all that is there, and then have no gap", async () => {
    world.api.put(POLICIES, { metadata: { name: "deny", namespace: "shop", uid: "u1" }, spec: SPEC });
    world.api.put(NAMESPACES, { metadata: { name: "shop", labels: { team: "a" } } });
    world.pod("web", "10.1.0.4/32", { labels: { app: "web" } });
    world.block("web");
    expect(world.sources.gap).toBe("nothing is read yet");
    expect(world.sources.isComplete).toBe(false);
    await world.start();
    const { sink, sources } = world;
    expect(sink.policies.get("shop/deny")).toMatchObject({ namespace: "shop", name: "deny", uid: "u1", spec: SPEC });
    expect([...sink.namespaces]).toEqual([["shop", { team: "a" }]]);
    expect([...sink.peers]).toEqual([
      ["shop/web", { namespace: "shop", name: "web", labels: { app: "web" }, addresses: [address("10.1.0.4")], ports: undefined }],
    ]);
    expect([sources.gap, sources.isComplete]).toEqual([undefined, true]);
    await sources.untilSynced(NEVER);
  });

  it("ask for no more of pods and namespaces than their metadata, and for pods in pages", async () => {
    await world.start();
    for (const path of [PODS, NAMESPACES]) {
      expect(world.asked(path)).toHaveLength(2);
      for (const accept of world.asked(path)) expect(accept).toContain("as=PartialObjectMetadata");
    }
    expect(world.api.asked.map(({ target }) => target)).toContain(`${PODS}?limit=500`);
    expect(world.asked(POLICIES)).toEqual(["whole", "whole"]);
  });

  it("tell of a change with the event that brings it, and once", async () => {
    world.block("web");
    await world.start();
    const [told, changes] = [world.sink.tellings, world.changes];
    world.pod("web", "10.1.0.4/32", { labels: { app: "web" } });
    await settled();
    expect(world.sink.addresses).toEqual({ "shop/web": ["10.1.0.4"] });
    expect([world.sink.tellings - told, world.changes - changes]).toEqual([1, 1]);
    // Kubelet writes the status of a pod many times: nothing of that is news.
    world.pod("web", "10.1.0.4/32", { labels: { app: "web" }, status: { phase: "Running" } });
    await settled();
    expect([world.sink.tellings - told, world.changes - changes]).toEqual([1, 1]);
    world.pod("web", "10.1.0.4/32", { labels: { app: "other" } });
    await settled();
    expect(world.sink.peers.get("shop/web")?.labels).toEqual({ app: "other" });
    world.api.put(NAMESPACES, { metadata: { name: "shop", labels: { team: "a" } } });
    world.api.put(NAMESPACES, { metadata: { name: "shop", labels: { team: "a" }, annotations: { any: "thing" } } });
    world.api.put(NAMESPACES, { metadata: { name: "shop", labels: { team: "b" } } });
    await settled();
    expect([...world.sink.namespaces]).toEqual([["shop", { team: "b" }]]);
    expect([world.sink.tellings - told, world.changes - changes]).toEqual([4, 4]);
  });

  it("tell of what goes: annotation emptied, pod, policy and namespace deleted", async () => {
    world.block("web", "db");
    world.pod("web", "10.1.0.4/32");
    world.pod("db", "10.1.0.5/32");
    world.api.put(POLICIES, { metadata: { name: "deny", namespace: "shop" }, spec: SPEC });
    world.api.put(NAMESPACES, { metadata: { name: "shop" } });
    await world.start();
    expect(world.sink.addresses).toEqual({ "shop/db": ["10.1.0.5"], "shop/web": ["10.1.0.4"] });
    world.pod("web", "", { deletionTimestamp: "2030-01-01T00:00:00Z" });
    await settled();
    expect(world.sink.addresses).toEqual({ "shop/db": ["10.1.0.5"] });
    world.api.remove(PODS, "shop/db");
    world.api.remove(POLICIES, "shop/deny");
    world.api.remove(NAMESPACES, "shop");
    await settled();
    expect([world.sink.peers.size, world.sink.policies.size, world.sink.namespaces.size]).toEqual([0, 0, 0]);
  });

  it("take nothing away while they do not hear, say which and why, and tell the difference afterwards", async () => {
    world.block("web");
    world.pod("web", "10.1.0.4/32");
    world.api.put(POLICIES, { metadata: { name: "deny", namespace: "shop" }, spec: SPEC });
    world.api.put(POLICIES, { metadata: { name: "other", namespace: "shop" }, spec: SPEC });
    await world.start();
    world.api.refuse(POLICIES, { status: 503, message: "etcd is away" });
    await settled();
    expect(world.sources.gap).toMatch(/^changes of network policies are not being heard of: .*(etcd is away|broke off)/);
    world.api.remove(POLICIES, "shop/deny");
    world.api.forget();
    world.api.put(POLICIES, { metadata: { name: "new", namespace: "shop" }, spec: SPEC });
    await world.clock.advance(60_000);
    expect([...world.sink.policies.keys()]).toEqual(["shop/deny", "shop/other"]);
    expect([world.sources.isComplete, world.sources.gap]).toEqual([true, expect.stringContaining("etcd is away")]);

    const synced = world.sources.untilSynced(NEVER);
    world.api.refuse(POLICIES, undefined);
    await world.clock.advance(20_000);
    await synced;
    expect([...world.sink.policies.keys()]).toEqual(["shop/other", "shop/new"]);
    expect(world.sources.gap).toBeUndefined();
  });

  it("name the right that is missing, and the manifest that has it", async () => {
    const message =
      'networkpolicies.networking.k8s.io is forbidden: User "tortie" cannot list resource "networkpolicies" in API group "networking.k8s.io" at the cluster scope';
    world.api.refuse(POLICIES, { status: 403, message });
    await world.start();
    expect(world.sources.gap).toBe(
      `network policies have not been read yet: list https://in.memory:6443${POLICIES}?resourceVersion=0: ${message} (manifests/node/rbac.yaml has the right)`,
    );
    expect([world.sources.isComplete, world.logged.length]).toEqual([false, 1]);
    const ended = new AbortController();
    const waiting = world.sources.untilSynced(ended.signal);
    ended.abort(new Error("10 s are over"));
    await expect(waiting).rejects.toThrow("10 s are over");
  });

  it("wait for a server that cannot say yet which group has the blocks", async () => {
    world.group = () => Promise.reject(new Error("the server is away"));
    await world.start();
    expect([world.sources.gap, world.sources.isComplete]).toEqual([
      "blocks of addresses have not been read yet: the server is away",
      false,
    ]);
    world.group = async () => "projectcalico.org/v3";
    await world.clock.advance(10_000);
    expect([world.sources.gap, world.sources.isComplete]).toEqual([undefined, true]);
    expect(world.asked("/apis/projectcalico.org/v3/ipamblocks")).toHaveLength(2);
  });

  it("hear of blocks that somebody else watches already, and tell nobody of them after their end", async () => {
    world.block("web", "db");
    world.pod("web", "10.1.0.4/32");
    world.watchBlocks();
    await settled();
    await world.start();
    expect(world.sink.addresses).toEqual({ "shop/web": ["10.1.0.4"] });
    expect(world.asked(BLOCKS)).toHaveLength(2);
    await world.sources[Symbol.asyncDispose]();
    const tellings = world.sink.tellings;
    world.block("other");
    world.pod("db", "10.1.0.5/32");
    await settled();
    expect([world.sink.tellings, world.changes > 0]).toEqual([tellings, true]);
  });

  it("read a policy whose spec is nothing at all, because leaving it out would open what it closes", async () => {
    world.api.put(POLICIES, { metadata: { name: "odd", namespace: "shop" }, spec: "nonsense" });
    world.api.put(POLICIES, { metadata: { name: "none", namespace: "shop" } });
    await world.start();
    expect([...world.sink.policies.values()].map(({ name, spec }) => [name, spec])).toEqual([
      ["odd", {}],
      ["none", {}],
    ]);
  });

  it("survive annotations that are no addresses, too long, or too many", async () => {
    world.block("web");
    world.pod("web", `${"x".repeat(200_000)},10.1.0.4`);
    world.pod("db", Array.from({ length: 5_000 }, (_, i) => `10.9.${i >> 8}.${i & 255}`).join());
    world.pod("odd", "10.1.0.4/33,,/,10.1.0.999,::g");
    await world.start();
    expect(world.sink.addresses).toEqual({});
    expect(world.sources.refused()).toHaveLength(64);
    world.pod("web", "nonsense,10.1.0.4");
    await settled();
    expect(world.sink.addresses).toEqual({ "shop/web": ["10.1.0.4"] });
  });
});

describe("Whole pods", () => {
  const ports = { containers: [{ name: "c", ports: [{ name: "http", containerPort: 8080 }, { containerPort: 1 }] }] };

  it("are watched while a policy names a port in egress, which is a gap until they are there, and no longer", async () => {
    world.block("web");
    world.pod("web", "10.1.0.4/32", { spec: ports });
    await world.start();
    const isWhole = () => world.asked(PODS).filter((accept) => accept === "whole").length;
    expect(isWhole()).toBe(0);
    world.sink.needsPortsOfPeers = true;
    world.sources.demand();
    expect(world.sources.gap).toBe("all pods have not been read yet");
    await settled();
    expect(world.sources.gap).toBeUndefined();
    expect(world.sink.peers.get("shop/web")?.ports).toEqual([{ name: "http", protocol: "TCP", port: 8080 }]);

    world.sink.needsPortsOfPeers = false;
    world.sources.demand();
    await world.clock.advance(30_000);
    expect(world.sink.peers.get("shop/web")?.ports).toHaveLength(1);
    await world.clock.advance(60_000);
    expect(world.sink.peers.get("shop/web")?.ports).toBeUndefined();
    const before = isWhole();
    world.api.cut();
    await world.clock.advance(60_000);
    expect(isWhole()).toBe(before);
    expect(world.sink.addresses).toEqual({ "shop/web": ["10.1.0.4"] });
  });

  it("are waited for at the start, where any policy names a port in egress, until the engine says that it needs none", async () => {
    world.block("web");
    world.pod("web", "10.1.0.4/32", { spec: ports });
    const egress = [{ ports: [{ port: 80 }] }, { to: [{ podSelector: {} }], ports: [{ protocol: "TCP", port: "http" }] }];
    world.api.put(POLICIES, { metadata: { name: "named", namespace: "shop" }, spec: { podSelector: {}, egress } });
    world.api.put(POLICIES, { metadata: { name: "odd", namespace: "shop" }, spec: { egress: [null, 5, { ports: "http" }] } });
    let answers = 0;
    const exchange = world.api.exchange.bind(world.api);
    const held = Promise.withResolvers<void>();
    world.api.exchange = async (call) => {
      if (call.path.startsWith(PODS) && call.accept === undefined) await held.promise;
      answers++;
      return exchange(call);
    };
    await world.start();
    expect(answers).toBeGreaterThan(3);
    expect([world.sources.gap, world.sources.isComplete]).toEqual(["all pods have not been read yet", false]);
    held.resolve();
    await settled();
    expect([world.sources.gap, world.sources.isComplete]).toEqual([undefined, true]);
    expect(world.sink.peers.get("shop/web")?.ports).toHaveLength(1);
    world.sources.demand();
    await world.clock.advance(60_000);
    expect(world.sink.peers.get("shop/web")?.ports).toBeUndefined();
    expect(world.sources.isComplete).toBe(true);
  });

  it("are watched for an address that no block has, but not for one whose block is a moment late, and nobody waits for them", async () => {
    await world.start();
    const isWhole = () => world.asked(PODS).includes("whole");
    world.pod("web", "10.1.0.4/32");
    await settled();
    world.block("web");
    await world.clock.advance(60_000);
    expect([world.sink.addresses, isWhole()]).toEqual([{ "shop/web": ["10.1.0.4"] }, false]);

    world.pod("static", "172.20.0.7", { status: { podIPs: [{ ip: "172.20.0.7" }] } });
    world.pod("forged", "172.20.0.8", { status: { podIPs: [{ ip: "10.1.0.6" }] } });
    await settled();
    expect([world.sources.gap, isWhole()]).toEqual([undefined, false]);
    await world.clock.advance(6_000);
    expect(isWhole()).toBe(true);
    expect(world.sink.addresses).toEqual({ "shop/static": ["172.20.0.7"], "shop/web": ["10.1.0.4"] });
    expect(world.sources.refused()).toEqual([
      { pod: "shop/forged", address: "172.20.0.8", reason: "no block has it, and its status names others" },
    ]);
  });

  it("are all that is watched with host scope, where a node's range proves a new pod's address before kubelet does", async () => {
    const world = ending(new World("ranges"));
    world.api.put(NODES, { metadata: { name: "node1" }, spec: { podCIDRs: ["10.8.1.0/24"] } });
    const onNode1 = { spec: { nodeName: "node1", ...ports } };
    world.pod("web", "10.8.1.5", onNode1);
    world.pod("forged", "10.8.9.5", onNode1);
    world.pod("host", "192.0.2.1", { spec: { nodeName: "node1", hostNetwork: true }, status: { podIPs: [{ ip: "192.0.2.1" }] } });
    await world.start();
    expect(new Set(world.asked(PODS))).toEqual(new Set(["whole"]));
    expect(world.asked(BLOCKS)).toEqual([]);
    expect(world.sink.addresses).toEqual({ "shop/web": ["10.8.1.5"] });
    expect(world.sink.peers.get("shop/web")?.ports).toHaveLength(1);
    expect([world.sources.gap, world.sources.isComplete]).toEqual([undefined, true]);

    world.pod("forged", "10.8.1.5", onNode1);
    await settled();
    expect(world.sources.conflicts()).toEqual([{ address: "10.8.1.5", pods: ["shop/forged", "shop/web"] }]);
    world.pod("web", "10.8.1.5", { ...onNode1, status: { podIPs: [{ ip: "10.8.1.5" }] } });
    await settled();
    expect([world.sink.addresses, world.sources.conflicts()]).toEqual([{ "shop/web": ["10.8.1.5"] }, []]);
    world.pod("web", "10.8.1.5", { ...onNode1, status: { phase: "Succeeded", podIPs: [{ ip: "10.8.1.5" }] } });
    await settled();
    expect(world.sink.addresses).toEqual({ "shop/forged": ["10.8.1.5"] });
  });
});

describe("Endpoints of this node", () => {
  it("are peers at once, before and after the start, and before any server has answered", async () => {
    const pod = (name: string) => ({ namespace: "shop", name, labels: { app: name }, ports: [] });
    world.sources.setOwn("cali1", { addresses: [address("10.1.0.4")], pod: pod("web") });
    world.group = () => Promise.reject(new Error("the server is away"));
    await world.start();
    expect(world.sink.addresses).toEqual({ "shop/web": ["10.1.0.4"] });
    const before = world.changes;
    world.sources.setOwn("cali2", { addresses: [address("10.1.0.5")], pod: pod("db") });
    expect([world.sink.addresses, world.changes - before]).toEqual([{ "shop/db": ["10.1.0.5"], "shop/web": ["10.1.0.4"] }, 1]);
    world.sources.setOwn("cali1", undefined);
    expect(world.sink.addresses).toEqual({ "shop/db": ["10.1.0.5"] });
  });
});

describe("Endpoints of another store", () => {
  it("prove addresses of the API server's pods, whose labels count, and need neither blocks nor annotations", async () => {
    const records: SourcePart = {
      start({ book, changed }) {
        const pod = (name: string) => ({ namespace: "shop", name, labels: { of: "record" } });
        book.setRecord("etcd web", { pod: pod("web"), addresses: [address("10.1.0.4")] });
        book.setRecord("etcd db", { pod: pod("db"), addresses: [address("10.1.0.5")] });
        changed();
      },
      gap: undefined,
      isComplete: true,
      async [Symbol.asyncDispose]() {},
    };
    const world = ending(new World("records", [records]));
    world.api.put(PODS, { metadata: { name: "web", namespace: "shop", labels: { of: "pod" } } });
    world.pod("forged", "10.1.0.4");
    await world.start();
    expect([...world.sink.peers.values()].map(({ name, labels }) => [name, labels])).toEqual([
      ["web", { of: "pod" }],
      ["db", { of: "record" }],
    ]);
    expect([world.asked(BLOCKS), world.sources.gap]).toEqual([[], undefined]);
    expect(world.sources.refused().map(({ pod, address: text }) => [pod, text])).toEqual([["shop/forged", "10.1.0.4"]]);
  });
});

describe("Policies of other kinds", () => {
  const LEGACY = "/apis/crd.projectcalico.org/v1";
  const V3 = "/apis/projectcalico.org/v3";
  const GROUP = "/apis/policy.networking.k8s.io";
  const NOTHING = { status: 404, message: "the server could not find the requested resource" };

  it("are counted by one object of each, once where two groups show the same, and again every ten minutes", async () => {
    world.api.refuse(`${GROUP}/v1alpha1/adminnetworkpolicies`, NOTHING);
    world.api.refuse(`${LEGACY}/globalnetworkpolicies`, NOTHING);
    for (const name of ["a", "b", "c"]) {
      world.api.put(`${LEGACY}/networkpolicies`, { metadata: { name, namespace: "shop" } });
      world.api.put(`${V3}/networkpolicies`, { metadata: { name, namespace: "shop" } });
    }
    world.api.put(`${V3}/globalnetworkpolicies`, { metadata: { name: "all" } });
    await world.start();
    expect(world.sources.unread()).toEqual([
      { kind: "NetworkPolicy.crd.projectcalico.org", atLeast: 3 },
      { kind: "GlobalNetworkPolicy.projectcalico.org", atLeast: 1 },
    ]);
    expect(world.sources.problems()).toEqual([]);
    expect(world.asked(`${V3}/networkpolicies`)).toEqual([]);
    const asked = () => world.api.asked.filter(({ target }) => target.endsWith("?limit=1")).length;
    const first = asked();
    world.api.put(`${GROUP}/v1alpha2/clusternetworkpolicies`, { metadata: { name: "all" } });
    await world.clock.advance(720_000);
    expect(asked()).toBeLessThanOrEqual(2 * first);
    expect(world.sources.unread()).toContainEqual({ kind: "ClusterNetworkPolicy.policy.networking.k8s.io", atLeast: 1 });
  });

  it("are named where the account may not look for them, and nobody waits for that", async () => {
    for (const root of [LEGACY, V3]) world.api.refuse(`${root}/globalnetworkpolicies`, { status: 403, message: "forbidden" });
    await world.start();
    expect([world.sources.gap, world.sources.isComplete]).toEqual([undefined, true]);
    expect(world.sources.problems()).toEqual([
      "whether there are other policies is not known: the agent's account may not list GlobalNetworkPolicy " +
        "(crd.projectcalico.org/v1, projectcalico.org/v3); manifests/node/rbac.yaml has the right",
    ]);
  });
});
