/** Policies and labels that somebody wrote to do harm: each gives a result or a problem, never an exception, and costs little. */

import type { Permission } from "../../../dataplane/packet-policy.ts";
import { PolicyEngine } from "../../../policy/engine.ts";
import { translateNetworkPolicy } from "../../../policy/network-policy.ts";
import { collapse, type ResolvedTier } from "../../../policy/permissions.ts";
import { address } from "../../support/addresses.ts";
import { policyObject } from "../../support/policy/engine-input.ts";
import { stateText } from "../../support/policy/packet-judge.ts";
import { pick, randomPolicy } from "../../support/policy/random-cluster.ts";
import { SmallCluster } from "../../support/policy/small-cluster.ts";
import { seededRandom } from "../../support/seeded-random.ts";

const WEB = { matchLabels: { app: "web" } };

/** What a parser of JSON or YAML can give in the place of anything. */
const ANYTHING: readonly unknown[] = [
  null,
  undefined,
  true,
  0,
  -1,
  1e300,
  Number.NaN,
  "",
  "Ingress",
  "10.0.0.0/8",
  "\u0000",
  [],
  [[]],
  [null],
  {},
  { podSelector: {} },
  { length: 3 },
  Object.create(null),
  JSON.parse('{"__proto__": {"podSelector": {}}, "constructor": 1, "toString": null}'),
  nested(5_000),
  new Array(3),
];

function anything(random: () => number): unknown {
  return ANYTHING[Math.floor(random() * ANYTHING.length)];
}

function nested(depth: number): unknown {
  let value: unknown = {};
  for (let level = 0; level < depth; level++) value = level % 2 === 0 ? { podSelector: value } : [value];
  return value;
}

function objectWith(spec: object) {
  return policyObject("shop", "one", { ...spec });
}

/** Replaces one value somewhere in a spec. */
function disturbed(random: () => number, value: unknown): unknown {
  if (typeof value !== "object" || value === null || random() < 0.15) return anything(random);
  if (Array.isArray(value)) {
    if (value.length === 0) return [anything(random)];
    const at = Math.floor(random() * value.length);
    return value.map((one: unknown, index) => (index === at ? disturbed(random, one) : one));
  }
  const entries = Object.entries(value);
  if (entries.length === 0 || random() < 0.1)
    return { ...value, [pick(random, ["x", "from", "ports", "__proto__", "cidr"])]: anything(random) };
  const [key] = pick(random, entries);
  return Object.fromEntries(entries.map(([name, one]: [string, unknown]) => [name, name === key ? disturbed(random, one) : one]));
}

function frozen<T>(value: T): T {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  Object.freeze(value);
  for (const one of Object.values(value)) frozen(one);
  return value;
}

function webPermission(spec: object, direction: "ingress" | "egress" = "ingress"): Permission | undefined {
  const { engine, state } = new SmallCluster().with({ podSelector: WEB, ...spec }, "one");
  expect(engine.policies()[0]?.problem).toBeUndefined();
  return state.endpoints.get("caliweb")?.[direction]?.get("000000000000");
}

describe("hostile policies", () => {
  it("give a result or a problem, and are never changed, whatever stands in whatever place", () => {
    const random = seededRandom(29);
    let problems = 0;
    for (let index = 0; index < 5_000; index++) {
      const object = frozen(objectWith(Object(disturbed(random, disturbed(random, randomPolicy(random, "one").spec)))));
      const { problem, ingress, egress } = translateNetworkPolicy(object);
      if (problem === undefined) continue;
      problems++;
      expect(problem).toMatch(/^spec[^\n]{1,400}$/);
      expect([ingress ?? [], egress ?? []]).toEqual([[], []]);
      expect(ingress ?? egress).toBeDefined();
    }
    expect(problems).toBeGreaterThan(1_000);
  });

  it("are not changed when they are valid", () => {
    const random = seededRandom(30);
    const engine = new PolicyEngine({ enforcement: "default" });
    for (let index = 0; index < 200; index++) engine.setPolicy(`shop/${index}`, frozen(objectWith(randomPolicy(random, "one").spec)));
    engine.setEndpoint("cali0", frozen({ addresses: [], pod: { namespace: "shop", name: "web", labels: {}, ports: [] } }));
    engine.take();
    expect(engine.policies()).toHaveLength(200);
  });

  it("4,096 ranges of ports become the ranges that they cover together", () => {
    const apart = Array.from({ length: 4_096 }, (_, index) => ({ port: 1 + index * 16, endPort: 8 + index * 16 }));
    const permission = webPermission({ ingress: [{ ports: apart.reverse() }] });
    expect(permission).toHaveLength(4_096);
    expect(permission?.[4_095]).toEqual({ protocol: 6, first: 65_521, last: 65_528 });
    const overlapping = Array.from({ length: 4_096 }, (_, index) => ({ port: 1 + index, endPort: 30_000 + index }));
    expect(webPermission({ ingress: [{ ports: overlapping }] })).toEqual([{ protocol: 6, first: 1, last: 34_095 }]);
  });

  it("65,535 ports of one policy become one range, and every second of them as many ranges", () => {
    const every = Array.from({ length: 65_535 }, (_, index) => ({ port: index + 1 }));
    expect(webPermission({ ingress: [{ ports: every }] })).toEqual([{ protocol: 6, first: 1, last: 65_535 }]);
    const second = every.filter(({ port }) => port % 2 === 0);
    expect(webPermission({ ingress: [{ ports: second }] })).toHaveLength(32_767);
  });

  it("65,536 ranges that allow, deny and pass in turn are decided by the first that names a port", () => {
    const actions = ["allow", "deny", "pass"] as const;
    const rules = Array.from({ length: 65_536 }, (_, index) => ({
      action: actions[index % 3] ?? "deny",
      ports: [{ kind: "range", protocol: 6, first: index, last: 65_535 } as const],
    }));
    const tiers: readonly ResolvedTier[] = [
      { otherwise: "pass", rules: [{ action: "pass", ports: [{ kind: "range", protocol: 6, first: 0, last: 0 }] }, ...rules] },
      { otherwise: "deny", rules: [] },
    ];
    // Port 0 is passed, every other port is the first rule's.
    expect(collapse(tiers, "deny")).toEqual([{ protocol: 6, first: 1, last: 65_535 }]);
  });

  it("a selector with 1,000 values selects each of them", () => {
    const values = Array.from({ length: 1_000 }, (_, index) => `value-${index}`);
    const peers = [{ podSelector: { matchExpressions: [{ key: "app", operator: "In", values: [...values, "api"] }] } }];
    const cluster = new SmallCluster().with({ podSelector: WEB, ingress: [{ from: peers }] });
    expect(cluster.allowed("ingress")).toEqual(["shop/api"]);
    expect(cluster.side("ingress", "shop/job", "80/TCP").reason).toBe(
      "rule 1 of shop/policy-0 allows port 80/TCP, but from pods matching app in (api, value-0, value-1, value-10, value-100, 996 more) " +
        "in namespace shop only",
    );
  });

  it("4,096 peers, and a block with 4,096 excepts", () => {
    const peers = Array.from({ length: 4_096 }, (_, index) => ({ podSelector: { matchLabels: { app: `app-${index}` } } }));
    const excepts = Array.from({ length: 4_096 }, (_, index) => `10.${index >> 8}.${index & 255}.128/25`);
    const cluster = new SmallCluster().with({
      podSelector: WEB,
      ingress: [{ from: [...peers, { ipBlock: { cidr: "10.0.0.0/8", except: excepts } }] }],
    });
    expect(cluster.allowed("ingress")).toEqual(["shop/api", "shop/job", "db/store", "node"]);
    expect(cluster.engine.state.blocks).toHaveLength(4_097);
  });

  it("names of 253 characters", () => {
    const long = "n".repeat(253);
    const labels = { app: "long" };
    const from = [{ namespaceSelector: {}, podSelector: { matchLabels: labels } }];
    const cluster = new SmallCluster().with({ podSelector: WEB, ingress: [{ from }] }, long);
    expect(cluster.allowed("ingress")).toEqual([]);
    expect(cluster.side("ingress", "world", "80/TCP").policies).toEqual([`shop/${long}`]);
    cluster.engine.setPeer(`${long}/${long}`, { namespace: long, name: long, labels, addresses: [address("10.5.5.5")], ports: [] });
    expect([...cluster.engine.take().addresses.keys()]).toEqual(["10.5.5.5"]);
  });
});

describe("labels", () => {
  const LEGAL = [
    "a",
    "A-1",
    "a.b_c-d",
    "x".repeat(63),
    "example.com/a",
    `${"a".repeat(61)}.${"b".repeat(61)}/n`,
    "0",
    "constructor",
    "toString",
  ];

  it.each(LEGAL)("%s is a key", (key) => {
    const cluster = new SmallCluster().setWeb({ [key]: "v" }).with({ podSelector: { matchLabels: { [key]: "v" } } }, "one");
    expect(cluster.allowed("ingress")).toEqual([]);
    expect(cluster.engine.policies()[0]?.problem).toBeUndefined();
    expect(cluster.setWeb({}).allowed("ingress")).not.toEqual([]);
  });

  it("every character that Kubernetes does not allow is refused, in keys and in values", () => {
    for (let code = 0; code < 0x300; code++) {
      const character = String.fromCharCode(code);
      const isLegal = /[A-Za-z0-9]/.test(character) || "-_.".includes(character);
      const problemOf = (matchLabels: object) => translateNetworkPolicy(objectWith({ podSelector: { matchLabels } })).problem === undefined;
      expect([code, problemOf({ [`a${character}b`]: "v" }), problemOf({ k: `a${character}b` })]).toEqual([
        code,
        isLegal || character === "/",
        isLegal,
      ]);
    }
  });

  it.each(["", "/a", "a/", "a/b/c", "-a", "a-", "x".repeat(64), "UPPER.com/a", `${"a.".repeat(127)}a/b`, "__proto__"])(
    "%j is no key",
    (key) => {
      const matchLabels = JSON.parse(`{${JSON.stringify(key)}: "v"}`);
      expect(translateNetworkPolicy(objectWith({ podSelector: { matchLabels } })).problem).toContain("which no label's key can be");
    },
  );

  it("of a pod may be anything, and select nothing by what every object has", () => {
    const labels = JSON.parse('{"__proto__": "x", "": "y", "a\\nb": "\\u0000", "hasOwnProperty": "z"}');
    const cluster = new SmallCluster().setWeb(labels);
    cluster.with({ podSelector: { matchExpressions: [{ key: "constructor", operator: "Exists" }] } }, "one");
    expect(cluster.allowed("ingress")).not.toEqual([]);
    cluster.with({ podSelector: { matchLabels: { hasOwnProperty: "z" } } }, "two");
    expect(cluster.allowed("ingress")).toEqual([]);
  });

  it("that differ only in where a separator would stand make different classes", () => {
    const stateFor = (one: string, other: string) => {
      const cluster = new SmallCluster().with({
        podSelector: WEB,
        ingress: [{ from: [{ podSelector: { matchExpressions: [{ key: "app", operator: "In", values: [one, other] }] } }] }],
      });
      return stateText(cluster.state);
    };
    expect(stateFor("api", "a.b")).not.toBe(stateFor("api", "a_b"));
    expect(stateFor("api", "b")).toBe(stateFor("b", "api"));
  });
});
