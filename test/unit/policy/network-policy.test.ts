/** NetworkPolicy as P§2.3 and the API's text have it: one test for each line, asked of the filter's state and of the judge. */
import { address } from "../../support/addresses.ts";
import { flowOf } from "../../support/policy/engine-input.ts";
import { EVERYBODY, SmallCluster } from "../../support/policy/small-cluster.ts";

const WEB = { matchLabels: { app: "web" } };
const PODS = ["shop/api", "shop/job", "db/store", "db/api"];

/** Whom shop/web hears at port 80 with these peers in its one rule. */
function heardBy(...from: readonly unknown[]): readonly string[] {
  return new SmallCluster().with({ podSelector: WEB, ingress: [{ from }] }).allowed("ingress");
}

/** The ports at which shop/web hears shop/api with these entries in its one rule. */
function portsFor(...entries: readonly unknown[]) {
  const cluster = new SmallCluster().with({ podSelector: WEB, ingress: [{ ports: entries }] });
  return (...ports: readonly string[]) => cluster.ports("ingress", "shop/api", ...ports);
}

describe("whom a NetworkPolicy selects", () => {
  it("P1: a pod without policy is open in both directions; a policy without rules closes ingress alone", () => {
    const open = new SmallCluster();
    expect([open.allowed("ingress"), open.allowed("egress")]).toEqual([EVERYBODY, EVERYBODY]);
    const closed = new SmallCluster().with({ podSelector: {} });
    expect([closed.allowed("ingress"), closed.allowed("egress")]).toEqual([[], EVERYBODY]);
    expect(closed.engine.state.endpoints.get("caliweb")?.egress).toBeUndefined();
  });

  it("selects pods of its own namespace by their labels; an empty or missing podSelector selects all of them", () => {
    const closes = (spec: object, namespace?: string) =>
      new SmallCluster().with({ ...spec }, "one", namespace).allowed("ingress").length === 0;
    expect(closes({ podSelector: WEB })).toBe(true);
    expect(closes({ podSelector: {} })).toBe(true);
    expect(closes({})).toBe(true);
    expect(closes({ podSelector: { matchLabels: { app: "api" } } })).toBe(false);
    expect(closes({ podSelector: {} }, "db")).toBe(false);
  });

  it("follows the labels of the pod", () => {
    const cluster = new SmallCluster().with({ podSelector: WEB });
    expect(cluster.allowed("ingress")).toEqual([]);
    expect(cluster.setWeb({ app: "other" }).allowed("ingress")).toEqual(EVERYBODY);
  });

  it("selects no endpoint that is no pod", () => {
    const { engine } = new SmallCluster().with({ podSelector: {}, policyTypes: ["Ingress", "Egress"] }, "all");
    engine.setEndpoint("calivm", { addresses: [], pod: undefined });
    engine.take();
    expect(engine.state.endpoints.get("calivm")).toEqual({ addresses: [], ingress: undefined, egress: undefined });
    expect(engine.policies()).toEqual([
      {
        key: "shop/all",
        uid: "uid-all",
        resourceVersion: "1",
        directions: ["ingress", "egress"],
        endpoints: ["caliweb"],
        problem: undefined,
      },
    ]);
  });

  it("L4: selects one pod of a StatefulSet by its name, a label that no identity has", () => {
    const label = "statefulset.kubernetes.io/pod-name";
    const cluster = new SmallCluster().with({ podSelector: { matchLabels: { [label]: "web-1" } } });
    const isClosed = (name: string) => !cluster.setWeb({ app: "web", [label]: name }).allows("ingress", "world");
    expect([isClosed("web-0"), isClosed("web-1")]).toEqual([false, true]);
    const peers = new SmallCluster().with({
      podSelector: WEB,
      ingress: [{ from: [{ podSelector: { matchLabels: { [label]: "db-1" } } }] }],
    });
    for (const [name, at] of [
      ["db-0", "10.0.3.1"],
      ["db-1", "10.0.3.2"],
    ] as const) {
      const labels = { app: "db", [label]: name };
      peers.engine.setPeer(`shop/${name}`, { namespace: "shop", name, labels, addresses: [address(at)], ports: [] });
    }
    peers.engine.take();
    const verdictOf = (source: string) =>
      peers.engine.judge(flowOf({ source, destination: "10.0.0.1", protocol: "TCP", port: 80 })).verdict;
    expect([verdictOf("10.0.3.1"), verdictOf("10.0.3.2")]).toEqual(["deny", "allow"]);
  });

  it("L5: a label that looks like a namespace is a label and nothing more", () => {
    const cluster = new SmallCluster().setWeb({ app: "web", "io.kubernetes.pod.namespace": "kube-system" });
    cluster.with({ podSelector: {} }, "theirs", "kube-system");
    expect(cluster.allowed("ingress")).toEqual(EVERYBODY);
    cluster.with({ podSelector: {} }, "ours", "shop");
    expect(cluster.allowed("ingress")).toEqual([]);
  });
});

describe("peers of a rule", () => {
  it("P2: an empty or missing list means everybody, inside and outside the cluster", () => {
    expect(heardBy()).toEqual(EVERYBODY);
    expect(new SmallCluster().with({ podSelector: WEB, ingress: [{}] }).allowed("ingress")).toEqual(EVERYBODY);
    expect(new SmallCluster().with({ podSelector: WEB, ingress: [{ from: null }] }).allowed("ingress")).toEqual(EVERYBODY);
    expect(new SmallCluster().with({ podSelector: WEB, policyTypes: ["Egress"], egress: [{ to: [] }] }).allowed("egress")).toEqual(
      EVERYBODY,
    );
  });

  it("a podSelector alone selects pods of the policy's namespace", () => {
    expect(heardBy({ podSelector: { matchLabels: { app: "api" } } })).toEqual(["shop/api"]);
    expect(heardBy({ podSelector: {} })).toEqual(["shop/api", "shop/job"]);
  });

  it("P3: a namespaceSelector alone selects all pods of its namespaces; the empty one all pods, no node and nobody outside", () => {
    expect(heardBy({ namespaceSelector: { matchLabels: { team: "blue" } } })).toEqual(["db/store", "db/api"]);
    expect(heardBy({ namespaceSelector: {} })).toEqual(PODS);
  });

  it("P4: both in one peer must hold, of two peers one", () => {
    const [namespaceSelector, podSelector] = [{ matchLabels: { team: "blue" } }, { matchLabels: { app: "api" } }];
    expect(heardBy({ namespaceSelector, podSelector })).toEqual(["db/api"]);
    expect(heardBy({ namespaceSelector }, { podSelector })).toEqual(["shop/api", "db/store", "db/api"]);
  });

  it("P4: In, NotIn, Exists and DoesNotExist; NotIn holds where the key is missing", () => {
    const expression = (key: string, operator: string, ...values: readonly string[]) =>
      heardBy({ namespaceSelector: {}, podSelector: { matchExpressions: [{ key, operator, values }] } });
    expect(expression("tier", "In", "front", "other")).toEqual(["shop/api"]);
    expect(expression("tier", "NotIn", "front")).toEqual(["shop/job", "db/store", "db/api"]);
    expect(expression("tier", "Exists")).toEqual(["shop/api", "db/store"]);
    expect(expression("tier", "DoesNotExist")).toEqual(["shop/job", "db/api"]);
    expect(heardBy({ namespaceSelector: { matchExpressions: [{ key: "env", operator: "NotIn", values: ["prod"] }] } })).toEqual([
      "shop/api",
      "shop/job",
    ]);
  });

  it("all expressions and labels of one selector must hold", () => {
    const matchExpressions = [
      { key: "tier", operator: "Exists" },
      { key: "app", operator: "NotIn", values: ["store"] },
    ];
    expect(heardBy({ namespaceSelector: {}, podSelector: { matchExpressions } })).toEqual(["shop/api"]);
    expect(heardBy({ namespaceSelector: {}, podSelector: { matchLabels: { tier: "back" }, matchExpressions } })).toEqual([]);
  });

  it("follows labels of namespaces; where they are not known, only the empty selector selects", () => {
    const cluster = new SmallCluster().with({
      podSelector: WEB,
      ingress: [{ from: [{ namespaceSelector: { matchExpressions: [{ key: "team", operator: "NotIn", values: ["blue"] }] } }] }],
    });
    expect(cluster.allowed("ingress")).toEqual(["shop/api", "shop/job"]);
    cluster.engine.setNamespace("db", {});
    expect(cluster.allowed("ingress")).toEqual(PODS);
    cluster.engine.setNamespace("db", undefined);
    expect(cluster.allowed("ingress")).toEqual(["shop/api", "shop/job"]);
    cluster.with({ podSelector: WEB, ingress: [{ from: [{ namespaceSelector: {} }] }] });
    expect(cluster.allowed("ingress")).toEqual(PODS);
  });

  it("an ipBlock matches every address in it but the excepts: pods, nodes and others, of both families", () => {
    expect(heardBy({ ipBlock: { cidr: "10.0.0.0/8" } })).toEqual(["shop/api", "shop/job", "db/store", "node"]);
    expect(heardBy({ ipBlock: { cidr: "10.0.0.0/8", except: ["10.0.1.0/24", "10.9.9.9/32"] } })).toEqual(["db/store"]);
    expect(heardBy({ ipBlock: { cidr: "::/0", except: ["fd00::/8"] } })).toEqual(["world6"]);
    expect(heardBy({ ipBlock: { cidr: "0.0.0.0/0" } })).toEqual(["shop/api", "shop/job", "db/store", "node", "world"]);
    expect(heardBy({ ipBlock: { cidr: "10.0.1.77/24" } })).toEqual(["shop/api", "shop/job"]);
  });

  it("an except takes nothing from another block or another peer", () => {
    const except = { ipBlock: { cidr: "10.0.0.0/16", except: ["10.0.1.0/24"] } };
    expect(heardBy(except, { ipBlock: { cidr: "10.0.1.2/32" } })).toEqual(["shop/api", "db/store"]);
    expect(heardBy(except, { podSelector: { matchLabels: { app: "job" } } })).toEqual(["shop/job", "db/store"]);
  });

  it("a peer with nothing set selects nobody, and the others go on", () => {
    expect(heardBy({})).toEqual([]);
    expect(heardBy({}, { podSelector: { matchLabels: { app: "api" } } })).toEqual(["shop/api"]);
  });
});

describe("ports of a rule", () => {
  const EVERY = ["1/TCP", "80/TCP", "65535/TCP", "80/UDP", "80/SCTP", "ICMP"];

  it("an empty or missing list means every port of every protocol", () => {
    expect(portsFor()(...EVERY)).toEqual(EVERY);
    expect(new SmallCluster().with({ podSelector: WEB, ingress: [{}] }).ports("ingress", "world", ...EVERY)).toEqual(EVERY);
  });

  it("a number means that port of that protocol, TCP where none is named", () => {
    expect(portsFor({ port: 80 })("79/TCP", "81/TCP", ...EVERY)).toEqual(["80/TCP"]);
    expect(portsFor({ port: 80, protocol: "UDP" })("79/UDP", "81/UDP", ...EVERY)).toEqual(["80/UDP"]);
    expect(portsFor({ port: 80, protocol: "SCTP" })(...EVERY)).toEqual(["80/SCTP"]);
  });

  it("P8: a protocol alone means all its ports, an empty entry all of TCP", () => {
    expect(portsFor({ protocol: "UDP" })(...EVERY)).toEqual(["80/UDP"]);
    expect(portsFor({})(...EVERY)).toEqual(["1/TCP", "80/TCP", "65535/TCP"]);
  });

  it("endPort means both ends and what is between", () => {
    const near = ["79/TCP", "80/TCP", "85/TCP", "90/TCP", "91/TCP", "85/UDP"];
    expect(portsFor({ port: 80, endPort: 90 })(...near)).toEqual(["80/TCP", "85/TCP", "90/TCP"]);
    expect(portsFor({ port: 80, endPort: 80 })(...near)).toEqual(["80/TCP"]);
  });

  it("P9: a name in ingress means the pod's own port of that name and protocol", () => {
    const near = ["8080/TCP", "8081/TCP", "8081/UDP", "8080/UDP"];
    expect(portsFor({ port: "http" })(...near)).toEqual(["8080/TCP"]);
    expect(portsFor({ port: "http", protocol: "UDP" })(...near)).toEqual(["8081/UDP"]);
    expect(portsFor({ port: "http", protocol: "SCTP" })("8080/SCTP", "8081/SCTP", ...near)).toEqual([]);
    expect(portsFor({ port: "grpc" })("7000/TCP", ...near)).toEqual([]);
  });

  it("P10: a name in egress means the port of each peer; an address that is no pod has none", () => {
    const cluster = new SmallCluster().with({ podSelector: WEB, policyTypes: ["Egress"], egress: [{ ports: [{ port: "grpc" }] }] });
    expect(cluster.allowed("egress", "7000/TCP")).toEqual(["shop/api"]);
    expect(cluster.allowed("egress", "9000/TCP")).toEqual(["db/store"]);
    expect(cluster.allowed("egress", "7000/UDP")).toEqual([]);
    expect(cluster.engine.needsPortsOfPeers).toBe(true);
  });

  it("P10: a name in egress reaches only the peers of its rule", () => {
    const to = [{ namespaceSelector: { matchLabels: { team: "blue" } } }, { ipBlock: { cidr: "fd00::/8" } }];
    const ports = [{ port: "grpc" }, { port: "grpc", protocol: "UDP" }];
    const cluster = new SmallCluster().with({ podSelector: WEB, policyTypes: ["Egress"], egress: [{ to, ports }] });
    expect(cluster.allowed("egress", "7000/TCP")).toEqual([]);
    expect(cluster.allowed("egress", "9000/TCP")).toEqual(["db/store"]);
    expect(cluster.allowed("egress", "7000/UDP")).toEqual(["db/api"]);
  });

  it("a name in egress opens nothing of a pod whose ports are not known", () => {
    const cluster = new SmallCluster().with({ podSelector: WEB, policyTypes: ["Egress"], egress: [{ ports: [{ port: "grpc" }] }] });
    const pod = { namespace: "shop", name: "api", labels: {}, addresses: [{ family: 4, value: 0x0a00_0102n } as const] };
    cluster.engine.setPeer("shop/api", { ...pod, ports: undefined });
    expect(cluster.allowed("egress", "7000/TCP")).toEqual([]);
    expect(cluster.side("egress", "shop/api", "7000/TCP").reason).toContain("the ports of shop/api are not known here");
  });

  it("needs the ports of peers only while a policy in force names one in egress", () => {
    const named = { podSelector: WEB, policyTypes: ["Egress"], egress: [{ ports: [{ port: "grpc" }] }] };
    const needs = (cluster: SmallCluster) => {
      cluster.engine.take();
      return cluster.engine.needsPortsOfPeers;
    };
    expect(needs(new SmallCluster().with({ podSelector: WEB, ingress: [{ ports: [{ port: "http" }] }] }))).toBe(false);
    expect(needs(new SmallCluster().with(named, "one", "db"))).toBe(false);
    const cluster = new SmallCluster().with(named, "one");
    expect(needs(cluster)).toBe(true);
    cluster.engine.setPolicy("shop/one", undefined);
    expect(needs(cluster)).toBe(false);
  });
});

describe("directions of a policy", () => {
  const [ingress, egress] = [[{ from: [{ podSelector: {} }] }], [{ to: [{ podSelector: {} }] }]];
  const SHOP = ["shop/api", "shop/job"];
  const both = (spec: object) => {
    const cluster = new SmallCluster().with({ podSelector: WEB, ...spec });
    return [cluster.allowed("ingress"), cluster.allowed("egress")];
  };

  it("P5: without policyTypes it has ingress, and egress where it has rules for that", () => {
    expect(both({ ingress })).toEqual([SHOP, EVERYBODY]);
    expect(both({ egress })).toEqual([[], SHOP]);
    expect(both({ ingress, egress })).toEqual([SHOP, SHOP]);
    expect(both({ ingress, egress: [] })).toEqual([SHOP, EVERYBODY]);
    expect(both({ ingress, policyTypes: [], egress })).toEqual([SHOP, SHOP]);
  });

  it("P5: rules of a direction that policyTypes does not name are ignored", () => {
    expect(both({ policyTypes: ["Egress"], ingress, egress })).toEqual([EVERYBODY, SHOP]);
    expect(both({ policyTypes: ["Ingress"], ingress, egress })).toEqual([SHOP, EVERYBODY]);
  });

  it("a type without rules closes its direction", () => {
    expect(both({ policyTypes: ["Ingress"] })).toEqual([[], EVERYBODY]);
    expect(both({ policyTypes: ["Egress"] })).toEqual([EVERYBODY, []]);
    expect(both({ policyTypes: ["Ingress", "Egress"], ingress: [], egress: [] })).toEqual([[], []]);
  });

  it("several policies allow what any of them allows", () => {
    const cluster = new SmallCluster()
      .with({ podSelector: WEB, ingress: [{ from: [{ podSelector: { matchLabels: { app: "api" } } }], ports: [{ port: 80 }] }] })
      .with({ podSelector: {}, ingress: [{ from: [{ podSelector: {} }], ports: [{ port: 81 }] }] })
      .with({ podSelector: WEB });
    expect([cluster.allowed("ingress", "80/TCP"), cluster.allowed("ingress", "81/TCP")]).toEqual([["shop/api"], SHOP]);
  });

  it("P14: always closes what no policy selects, never opens what one closes", () => {
    const always = new SmallCluster("always");
    expect([always.allowed("ingress"), always.allowed("egress")]).toEqual([[], []]);
    always.with({ podSelector: WEB, ingress });
    expect([always.allowed("ingress"), always.allowed("egress")]).toEqual([SHOP, []]);
    const never = new SmallCluster("never").with({ podSelector: {}, policyTypes: ["Ingress", "Egress"] });
    expect([never.allowed("ingress"), never.allowed("egress")]).toEqual([EVERYBODY, EVERYBODY]);
    expect(never.engine.state.endpoints.get("caliweb")?.ingress).toBeUndefined();
  });

  it("P14: always closes an endpoint that is no pod as well", () => {
    const { engine } = new SmallCluster("always");
    engine.setEndpoint("calivm", { addresses: [], pod: undefined });
    engine.take();
    expect(engine.state.endpoints.get("calivm")).toEqual({ addresses: [], ingress: new Map(), egress: new Map() });
  });

  it("a workload reaches itself whatever its policies say", () => {
    const cluster = new SmallCluster().with({ podSelector: {}, policyTypes: ["Ingress", "Egress"] });
    expect([cluster.allows("ingress", "itself"), cluster.allows("egress", "itself")]).toEqual([true, true]);
  });
});
