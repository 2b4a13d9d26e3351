/** What the judge says to an administrator: the sentence, the rule, the other end. */
import { PolicyEngine } from "../../../policy/engine.ts";
import type { NamedPort } from "../../../policy/model.ts";
import { address } from "../../support/addresses.ts";
import { flowOf, policyObject } from "../../support/policy/engine-input.ts";
import { classIn } from "../../support/policy/packet-judge.ts";
import { type Other, SmallCluster } from "../../support/policy/small-cluster.ts";

const WEB = { matchLabels: { app: "web" } };
const API = { podSelector: { matchLabels: { app: "api" } } };

function reason(cluster: SmallCluster, other: Other, port = "80/TCP"): string {
  return cluster.side("ingress", other, port).reason;
}

describe("the reason of a verdict", () => {
  it("names the rule that allows, and the peer that matches", () => {
    const cluster = new SmallCluster().with(
      { podSelector: WEB, ingress: [{ ports: [{ port: 81 }] }, { from: [API], ports: [{ port: 80 }] }] },
      "web",
    );
    expect(cluster.side("ingress", "shop/api", "80/TCP")).toEqual({
      workload: "shop/web",
      direction: "ingress",
      verdict: "allow",
      policies: ["shop/web"],
      decidedBy: { policy: "shop/web", direction: "ingress", rule: 2 },
      peerClass: classIn(cluster.engine.state, address("10.0.1.2")),
      peer: "shop/api",
      reason: "rule 2 of shop/web allows port 80/TCP from shop/api (pods matching app=api in namespace shop)",
      lacksPorts: false,
    });
    expect(reason(cluster, "world", "81/TCP")).toBe("rule 1 of shop/web allows port 81/TCP from 203.0.113.7 (everybody)");
  });

  it("names the rule that allows other ports to the same peer", () => {
    const cluster = new SmallCluster().with(
      {
        podSelector: WEB,
        ingress: [{ from: [{ podSelector: {} }], ports: [{ port: 8080 }] }, { ports: [{ port: 9000, endPort: 9010, protocol: "UDP" }] }],
      },
      "web",
    );
    expect(reason(cluster, "shop/api", "8081/TCP")).toBe(
      "no rule of shop/web allows port 8081/TCP from shop/api; rule 1 allows 8080/TCP from these peers",
    );
    expect(reason(cluster, "world", "8081/TCP")).toBe(
      "no rule of shop/web allows port 8081/TCP from 203.0.113.7; rule 2 allows 9000-9010/UDP from everybody",
    );
    expect(reason(cluster, "world", "ICMP")).toBe(
      "no rule of shop/web allows ICMP from 203.0.113.7; rule 2 allows 9000-9010/UDP from everybody",
    );
  });

  it("names the rule that allows the port to other peers", () => {
    const peers = [
      API,
      { namespaceSelector: { matchLabels: { team: "blue" } } },
      { ipBlock: { cidr: "10.0.0.0/8", except: ["10.0.0.0/16"] } },
    ];
    const cluster = new SmallCluster().with({ podSelector: WEB, ingress: [{ from: [API], ports: [{ port: 80 }] }] }, "web");
    expect(reason(cluster, "shop/job")).toBe(
      "rule 1 of shop/web allows port 80/TCP, but from pods matching app=api in namespace shop only",
    );
    const wide = new SmallCluster().with({ podSelector: WEB, ingress: [{ from: peers }] }, "web");
    expect(reason(wide, "shop/job")).toBe(
      "rule 1 of shop/web allows port 80/TCP, but from pods matching app=api in namespace shop, pods in namespaces matching team=blue " +
        "or addresses in 10.0.0.0/8 except 10.0.0.0/16 only",
    );
    expect(reason(new SmallCluster().with({ podSelector: WEB, ingress: [{ from: [{}] }] }, "web"), "shop/job")).toBe(
      "rule 1 of shop/web allows port 80/TCP, but from nobody only",
    );
  });

  it("says that there is no rule", () => {
    const cluster = new SmallCluster()
      .with({ podSelector: WEB, policyTypes: ["Ingress", "Egress"] }, "web")
      .with({ podSelector: {} }, "all");
    expect(reason(cluster, "shop/api")).toBe(
      "no rule of shop/all or shop/web allows port 80/TCP from shop/api: there is no rule, so ingress is closed",
    );
    expect(cluster.side("egress", "shop/api", "80/TCP").reason).toBe(
      "no rule of shop/web allows port 80/TCP to shop/api: there is no rule, so egress is closed",
    );
    expect(cluster.side("egress", "shop/api", "80/TCP").decidedBy).toBeUndefined();
  });

  it("says that no rule comes near", () => {
    const cluster = new SmallCluster().with({ podSelector: WEB, ingress: [{ from: [API], ports: [{ port: 81 }] }] }, "web");
    expect(reason(cluster, "shop/job")).toBe("no rule of shop/web allows port 80/TCP from shop/job");
  });

  it("says which policy is invalid, and why", () => {
    const cluster = new SmallCluster().with({ podSelector: WEB, ingress: [{ ports: [{ port: 80, endPort: 1 }] }] }, "bad");
    expect(reason(cluster, "shop/api")).toBe(
      "no rule of shop/bad allows port 80/TCP from shop/api: there is no rule, so ingress is closed; " +
        "shop/bad is invalid and opens nothing: spec.ingress[0].ports[0].endPort is 1, below port 80",
    );
  });

  it("counts policies and ports that are too many for a sentence", () => {
    const cluster = new SmallCluster();
    for (const name of ["a", "b", "c", "d", "e"])
      cluster.with({ podSelector: WEB, ingress: [{ from: [API], ports: [1, 2, 3, 4].map((port) => ({ port })) }] }, name);
    expect(reason(cluster, "shop/api")).toBe(
      "no rule of shop/a, shop/b, shop/c or 2 more allows port 80/TCP from shop/api; rule 1 of shop/a allows 1/TCP, 2/TCP, 3/TCP and 1 more from these peers",
    );
  });

  it("says what a named port means, or why it means nothing", () => {
    const cluster = new SmallCluster().with(
      { podSelector: WEB, ingress: [{ ports: [{ port: "http" }, { port: "grpc" }] }], egress: [{ ports: [{ port: "grpc" }] }] },
      "web",
    );
    expect(reason(cluster, "shop/api")).toBe(
      'no rule of shop/web allows port 80/TCP from shop/api; rule 1 allows "http"/TCP (8080 in shop/web) and "grpc"/TCP (which shop/web does not have) from everybody',
    );
    expect(cluster.side("egress", "world", "80/TCP").reason).toBe(
      'no rule of shop/web allows port 80/TCP to 203.0.113.7; rule 1 allows "grpc"/TCP (203.0.113.7 is no pod, and only pods name ports) to everybody',
    );
  });

  it("says that nothing selects the workload, and what the node's mode makes of it", () => {
    expect(reason(new SmallCluster(), "world")).toBe("no policy selects shop/web in ingress");
    expect(reason(new SmallCluster("always"), "world")).toBe('no policy selects shop/web in ingress, and enforcement is "always"');
    const never = new SmallCluster("never").with({ podSelector: WEB });
    expect(reason(never, "world")).toBe("policy is not enforced on this node");
    expect(never.side("ingress", "world", "80/TCP").policies).toEqual([]);
    expect(new SmallCluster().with({ podSelector: {} }).side("ingress", "itself", "80/TCP").reason).toBe(
      "a workload always reaches itself",
    );
  });
});

describe("both ends of a flow", () => {
  const [api, web, world] = [address("10.0.1.2"), address("10.0.0.1"), address("203.0.113.7")];

  it("must both allow it; an end that is no workload says nothing", () => {
    const cluster = new SmallCluster().with({ podSelector: WEB, ingress: [{ from: [API] }] });
    const judge = (source: typeof api, destination: typeof api) => cluster.engine.judge({ source, destination, protocol: 6, port: 80 });
    expect([judge(api, web).verdict, judge(world, web).verdict, judge(world, web).egress]).toEqual(["allow", "deny", undefined]);
    expect([judge(web, world).verdict, judge(web, world).ingress]).toEqual(["allow", undefined]);
    cluster.with({ podSelector: { matchLabels: { app: "api" } }, policyTypes: ["Egress"] });
    expect([judge(api, web).verdict, judge(api, web).egress?.verdict, judge(api, web).ingress?.verdict]).toEqual(["deny", "deny", "allow"]);
  });

  it("are judged on other nodes too; ports of theirs that are not known match no name", () => {
    const engine = new PolicyEngine({ enforcement: "default" });
    const far = (ports: readonly NamedPort[] | undefined) =>
      engine.setPeer("shop/far", { namespace: "shop", name: "far", labels: { app: "far" }, addresses: [api], ports });
    engine.setPolicy("shop/far", policyObject("shop", "far", { podSelector: {}, ingress: [{ ports: [{ port: "http" }] }] }));
    const http = [{ name: "http", protocol: "TCP", port: 8080 }];
    const judged = (destinationPorts?: readonly NamedPort[]) =>
      engine.judge({ source: world, destination: api, protocol: 6, port: 8080, destinationPorts }).ingress;
    far(http);
    expect(judged()).toMatchObject({ workload: "shop/far", verdict: "allow", policies: ["shop/far"], lacksPorts: false });
    expect(judged([])).toMatchObject({ verdict: "allow" });
    far(undefined);
    expect(judged(http)).toMatchObject({ verdict: "allow", lacksPorts: false });
    expect(judged([])).toMatchObject({ verdict: "deny", lacksPorts: false });
    expect(judged()).toMatchObject({
      verdict: "deny",
      lacksPorts: true,
      reason:
        'no rule of shop/far allows port 8080/TCP from 203.0.113.7; rule 1 allows "http"/TCP (the ports of shop/far are not known here) from everybody',
    });
  });

  it("are named by the host end where the endpoint is no pod", () => {
    const { engine } = new SmallCluster();
    engine.setEndpoint("calivm", { addresses: [address("10.7.7.7")], pod: undefined });
    expect(engine.judge({ source: address("10.7.7.7"), destination: web, protocol: 17, port: 53 }).egress).toMatchObject({
      workload: "calivm",
      verdict: "allow",
      policies: [],
      peer: "shop/web",
      reason: "no policy selects calivm in egress",
    });
  });

  it("without a port are allowed by rules for the whole protocol alone", () => {
    const flow = { ...flowOf({ source: "203.0.113.7", destination: "10.0.0.1", protocol: "UDP", port: undefined }) };
    const judged = (ports: readonly object[]) =>
      new SmallCluster().with({ podSelector: WEB, ingress: [{ ports }] }).engine.judge(flow).verdict;
    expect([judged([{ protocol: "UDP" }]), judged([{ protocol: "UDP", port: 1, endPort: 65_535 }]), judged([])]).toEqual([
      "allow",
      "deny",
      "allow",
    ]);
  });
});

describe("an address that two claim", () => {
  const flow = { source: address("10.0.5.5"), destination: address("10.0.0.1"), protocol: 6, port: 80 };
  const peer = (name: string, app: string) => ({ namespace: "shop", name, labels: { app }, addresses: [flow.source], ports: [] });
  const sourceOf = ({ engine }: SmallCluster) => engine.judge(flow).egress?.workload;

  it("is the first pod's by name, in whatever order they came, and the other's when that one goes", () => {
    const cluster = () => new SmallCluster().with({ podSelector: WEB, ingress: [{ from: [API] }] });
    const [one, other] = [cluster(), cluster()];
    one.engine.setPeer("shop/b", peer("b", "job"));
    one.engine.setPeer("shop/a", peer("a", "api"));
    other.engine.setPeer("shop/a", peer("a", "api"));
    other.engine.setPeer("shop/b", peer("b", "job"));
    expect(one.state).toEqual(other.state);
    expect([sourceOf(one), one.engine.judge(flow).verdict]).toEqual(["shop/a", "allow"]);
    one.engine.setPeer("shop/a", undefined);
    expect([...one.engine.take().addresses.keys()]).toEqual(["10.0.5.5"]);
    expect([sourceOf(one), one.engine.judge(flow).verdict]).toEqual(["shop/b", "deny"]);
  });

  it("is the endpoint's that this node attached, whatever pod others tell of", () => {
    const anyApi = { namespaceSelector: {}, ...API };
    for (const namespace of ["a", "z"]) {
      const cluster = new SmallCluster().with({ podSelector: WEB, ingress: [{ from: [anyApi] }] });
      cluster.engine.setPeer(`${namespace}/api`, { ...peer("api", "api"), namespace });
      const pod = { namespace: "shop", name: "new", labels: { app: "job" }, ports: [] };
      cluster.engine.setEndpoint("calinew", { addresses: [flow.source], pod });
      expect(cluster.state.addresses.has("10.0.5.5")).toBe(false);
      expect([sourceOf(cluster), cluster.engine.judge(flow).verdict]).toEqual(["shop/new", "deny"]);
    }
  });

  it("is looked up among pods where the endpoint is none", () => {
    const cluster = new SmallCluster().with({ podSelector: WEB, ingress: [{ from: [API] }] });
    cluster.engine.setEndpoint("calivm", { addresses: [flow.source], pod: undefined });
    expect(cluster.state.addresses.has("10.0.5.5")).toBe(false);
    cluster.engine.setPeer("shop/a", peer("a", "api"));
    cluster.engine.take();
    expect([sourceOf(cluster), cluster.engine.judge(flow).verdict]).toEqual(["calivm", "allow"]);
  });
});
