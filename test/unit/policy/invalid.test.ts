/** Policies that the API refuses: what is said of them, and that they close what they select and open nothing. */
import { translateNetworkPolicy } from "../../../policy/network-policy.ts";
import { EVERYBODY, SmallCluster } from "../../support/policy/small-cluster.ts";

const WEB = { matchLabels: { app: "web" } };

const rule = (...ports: readonly unknown[]) => ({ podSelector: WEB, ingress: [{}, { ports }] });
const from = (...peers: readonly unknown[]) => ({ podSelector: WEB, ingress: [{}, { from: peers }] });
const expression = (value: unknown) => from({ podSelector: { matchExpressions: [value] } });
const block = (cidr: unknown, ...except: readonly unknown[]) => from({ ipBlock: { cidr, except } });

const INVALID: readonly (readonly [spec: Readonly<Record<string, unknown>>, problem: string])[] = [
  [rule({ port: 80, endPort: 79 }), "spec.ingress[1].ports[0].endPort is 79, below port 80"],
  [rule({ port: 80 }, { port: "http", endPort: 90 }), "spec.ingress[1].ports[1].endPort is set, but port is no number"],
  [rule({ endPort: 90 }), "spec.ingress[1].ports[0].endPort is set, but port is no number"],
  [rule({ port: 80, endPort: 65_536 }), "spec.ingress[1].ports[0].endPort is 65536, not a number from 1 to 65535"],
  [rule({ port: 80, endPort: "90" }), 'spec.ingress[1].ports[0].endPort is "90", not a number from 1 to 65535'],
  [rule({ port: 0 }), "spec.ingress[1].ports[0].port is 0, not a number from 1 to 65535"],
  [rule({ port: 65_536 }), "spec.ingress[1].ports[0].port is 65536, not a number from 1 to 65535"],
  [rule({ port: -1 }), "spec.ingress[1].ports[0].port is -1, not a number from 1 to 65535"],
  [rule({ port: 80.5 }), "spec.ingress[1].ports[0].port is 80.5, not a number from 1 to 65535"],
  [rule({ port: Number.NaN }), "spec.ingress[1].ports[0].port is NaN, not a number from 1 to 65535"],
  [rule({ port: "80" }), 'spec.ingress[1].ports[0].port is "80", which no port can be named'],
  [rule({ port: "a--b" }), 'spec.ingress[1].ports[0].port is "a--b", which no port can be named'],
  [rule({ port: "sixteen-letters-" }), 'spec.ingress[1].ports[0].port is "sixteen-letters-", which no port can be named'],
  [rule({ port: "HTTP" }), 'spec.ingress[1].ports[0].port is "HTTP", which no port can be named'],
  [rule({ port: "" }), 'spec.ingress[1].ports[0].port is "", which no port can be named'],
  [rule({ port: [80] }), "spec.ingress[1].ports[0].port is a list, not a text"],
  [rule({ protocol: "ICMP" }), 'spec.ingress[1].ports[0].protocol is "ICMP", not TCP, UDP or SCTP'],
  [rule({ protocol: "tcp" }), 'spec.ingress[1].ports[0].protocol is "tcp", not TCP, UDP or SCTP'],
  [rule({ protocol: 6 }), "spec.ingress[1].ports[0].protocol is 6, not TCP, UDP or SCTP"],
  [rule({ prot: "TCP" }), 'spec.ingress[1].ports[0] has a member "prot" that is not known here'],
  [rule(null), "spec.ingress[1].ports[0] is null, not an object"],
  [rule("80"), 'spec.ingress[1].ports[0] is "80", not an object'],
  [from({ podSelectors: {} }), 'spec.ingress[1].from[0] has a member "podSelectors" that is not known here'],
  [from("everybody"), 'spec.ingress[1].from[0] is "everybody", not an object'],
  [from({ podSelector: [] }), "spec.ingress[1].from[0].podSelector is a list, not an object"],
  [from({ podSelector: { matchLabels: { app: 1 } } }), 'spec.ingress[1].from[0].podSelector.matchLabels["app"] is 1, not a text'],
  [from({ podSelector: { matchLabels: "app=web" } }), 'spec.ingress[1].from[0].podSelector.matchLabels is "app=web", not an object'],
  [
    from({ podSelector: { matchLabels: { "-a": "b" } } }),
    'spec.ingress[1].from[0].podSelector.matchLabels names "-a", which no label\'s key can be',
  ],
  [
    from({ namespaceSelector: { matchLabels: { a: "b c" } } }),
    'spec.ingress[1].from[0].namespaceSelector.matchLabels["a"] is "b c", which no label\'s value can be',
  ],
  [
    expression({ key: "a", operator: "In" }),
    "spec.ingress[1].from[0].podSelector.matchExpressions[0].values is empty, but In needs a value",
  ],
  [
    expression({ key: "a", operator: "NotIn", values: [] }),
    "spec.ingress[1].from[0].podSelector.matchExpressions[0].values is empty, but NotIn needs a value",
  ],
  [
    expression({ key: "a", operator: "Exists", values: ["b"] }),
    "spec.ingress[1].from[0].podSelector.matchExpressions[0].values has values, but Exists takes none",
  ],
  [
    expression({ key: "a", operator: "DoesNotExist", values: ["b"] }),
    "spec.ingress[1].from[0].podSelector.matchExpressions[0].values has values, but DoesNotExist takes none",
  ],
  [
    expression({ key: "a", operator: "Gt", values: ["1"] }),
    'spec.ingress[1].from[0].podSelector.matchExpressions[0].operator is "Gt", not In, NotIn, Exists or DoesNotExist',
  ],
  [expression({ operator: "Exists" }), "spec.ingress[1].from[0].podSelector.matchExpressions[0].key is missing, not a text"],
  [
    expression({ key: "a", operator: "In", values: [{}] }),
    "spec.ingress[1].from[0].podSelector.matchExpressions[0].values[0] is an object, not a text",
  ],
  [block("10.0.0.0"), 'spec.ingress[1].from[0].ipBlock.cidr is "10.0.0.0", not an address and a prefix length'],
  [block("10.0.0.0/33"), 'spec.ingress[1].from[0].ipBlock.cidr is "10.0.0.0/33", not an address and a prefix length'],
  [block("::ffff:10.0.0.0/8"), 'spec.ingress[1].from[0].ipBlock.cidr is "::ffff:10.0.0.0/8", not an address and a prefix length'],
  [block(undefined), "spec.ingress[1].from[0].ipBlock.cidr is missing, not a text"],
  [block("10.0.0.0/8", "11.0.0.0/16"), 'spec.ingress[1].from[0].ipBlock.except[0] is "11.0.0.0/16", which is no part of the block'],
  [block("10.0.0.0/8", "10.0.0.0/8"), 'spec.ingress[1].from[0].ipBlock.except[0] is "10.0.0.0/8", which is no part of the block'],
  [block("10.0.0.0/8", "10.1.0.0/16", "::/8"), 'spec.ingress[1].from[0].ipBlock.except[1] is "::/8", which is no part of the block'],
  [
    from({ ipBlock: { cidr: "10.0.0.0/8" }, podSelector: {} }),
    "spec.ingress[1].from[0].ipBlock stands beside a selector, which the API does not allow",
  ],
  [{ podSelector: WEB, ingress: {} }, "spec.ingress is an object, not a list"],
  [{ podSelector: WEB, ingress: [null] }, "spec.ingress[0] is null, not an object"],
  [{ podSelector: WEB, ingress: [{}, { to: [] }] }, 'spec.ingress[1] has a member "to" that is not known here'],
  [{ podSelector: WEB, ingress: [{}], rules: [] }, 'spec has a member "rules" that is not known here'],
];

describe("an invalid policy", () => {
  it.each(INVALID)("P7: %j", (spec, problem) => {
    const cluster = new SmallCluster().with(spec, "bad").with({ podSelector: { matchLabels: { app: "api" } } }, "good");
    expect(cluster.allowed("ingress")).toEqual([]);
    expect(cluster.allowed("egress")).toEqual(EVERYBODY);
    expect(cluster.engine.policies().map(({ key, problem: said }) => [key, said])).toEqual([
      ["shop/bad", problem],
      ["shop/good", undefined],
    ]);
  });

  it("P7: takes nothing from what other policies open", () => {
    const cluster = new SmallCluster().with(rule({ port: 80, endPort: 79 }), "bad").with({ podSelector: WEB, ingress: [{}] }, "good");
    expect(cluster.allowed("ingress")).toEqual(EVERYBODY);
  });

  it("closes the directions that it has", () => {
    const egress = [{ ports: [{ port: 0 }] }];
    const both = (spec: object) => {
      const cluster = new SmallCluster().with({ podSelector: WEB, ...spec });
      return [cluster.allowed("ingress").length === 0, cluster.allowed("egress").length === 0];
    };
    expect(both({ egress })).toEqual([true, true]);
    expect(both({ policyTypes: ["Egress"], egress })).toEqual([false, true]);
    expect(both({ policyTypes: ["Ingress"], egress })).toEqual([true, false]);
    expect(both({ egress: "everything" })).toEqual([true, true]);
  });

  it("closes both directions where its policyTypes cannot be read", () => {
    for (const policyTypes of [["Ingress", "Outgress"], "Ingress", [null], ["Ingress", "Egress", "Ingress"], { Ingress: true }]) {
      const cluster = new SmallCluster().with({ podSelector: WEB, policyTypes, ingress: [{}], egress: [{}] }, "bad");
      expect([cluster.allowed("ingress"), cluster.allowed("egress")]).toEqual([[], []]);
      expect(cluster.engine.policies()[0]?.problem).toMatch(/^spec\.policyTypes/);
    }
  });

  it("closes all pods of its namespace where its podSelector cannot be read", () => {
    for (const podSelector of ["app=web", { matchLabels: { app: null } }, { matchExpressions: [{ key: "a", operator: "In" }] }, 7]) {
      const cluster = new SmallCluster().with({ podSelector, ingress: [{}] }, "bad");
      expect(cluster.allowed("ingress")).toEqual([]);
      expect(cluster.engine.policies()[0]?.problem).toMatch(/^spec\.podSelector/);
    }
    expect(new SmallCluster().with({ podSelector: "app=web" }, "bad", "db").allowed("ingress")).toEqual(EVERYBODY);
  });

  it("closes everything of its namespace where it has no spec that could be read", () => {
    for (const spec of [undefined, null, "allow", 1, []]) {
      const object = JSON.parse(JSON.stringify({ namespace: "shop", name: "bad", uid: "1", resourceVersion: "1", spec }));
      const cluster = new SmallCluster();
      cluster.engine.setPolicy("shop/bad", object);
      expect([cluster.allowed("ingress"), cluster.allowed("egress")]).toEqual([[], []]);
      expect(cluster.engine.policies()[0]?.problem).toMatch(/^spec is .*, not an object$/);
    }
  });

  it("becomes right again when it is mended", () => {
    const cluster = new SmallCluster().with({ podSelector: "?" }, "one");
    expect(cluster.allowed("ingress")).toEqual([]);
    cluster.with({ podSelector: WEB, ingress: [{ from: [{ podSelector: {} }] }] }, "one");
    expect(cluster.allowed("ingress")).toEqual(["shop/api", "shop/job"]);
    expect(cluster.engine.policies()[0]?.problem).toBeUndefined();
  });

  it("repeats no more than sixty characters of a value, none of which disturbs a terminal or a log", () => {
    const value = `\u001b[31m\n\u202e${"x".repeat(5000)}`;
    const { problem = "" } = translateNetworkPolicy({
      namespace: "shop",
      name: "bad",
      uid: "1",
      resourceVersion: "1",
      spec: { podSelector: { matchLabels: { [value]: value } } },
    });
    expect(problem).toMatch(/^spec\.podSelector\.matchLabels names "\?\[31m\?\?x{53}…", which no label's key can be$/);
  });
});
