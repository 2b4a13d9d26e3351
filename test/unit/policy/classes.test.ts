/** Classes of addresses: their names, and what endpoints share. */
import { createHash } from "node:crypto";
import { ClassTable, classOf, peerPredicate } from "../../../policy/classes.ts";
import { PolicyEngine } from "../../../policy/engine.ts";
import type { EngineChange } from "../../../policy/model.ts";
import { address } from "../../support/addresses.ts";
import { policyObject } from "../../support/policy/engine-input.ts";
import { classIn } from "../../support/policy/packet-judge.ts";
import { SmallCluster } from "../../support/policy/small-cluster.ts";

const WEB = { matchLabels: { app: "web" } };
const API = { podSelector: { matchLabels: { app: "api" } } };

describe("the class of an address", () => {
  it("is named by twelve digits of SHA-256 over its sorted predicates, or by zeros where there are none", () => {
    const cluster = new SmallCluster().with({ podSelector: WEB, ingress: [{ from: [{ ipBlock: { cidr: "10.0.1.9/24" } }, API] }] });
    const keys = ["block 10.0.1.0/24", 'pods "shop" [["app","In","api"]]'];
    const name = createHash("sha256").update(keys.join("\n")).digest("hex").slice(0, 12);
    expect(classIn(cluster.state, address("10.0.1.2"))).toBe(name);
    expect(classIn(cluster.engine.state, address("10.0.2.4"))).toBe("000000000000");
  });

  it("is the same in whatever order and form the selectors were written", () => {
    const nameFor = (podSelector: object) => {
      const cluster = new SmallCluster().with({ podSelector: WEB, ingress: [{ from: [{ podSelector }] }] });
      return classIn(cluster.state, address("10.0.1.2"));
    };
    const plain = nameFor({ matchLabels: { tier: "front", app: "api" } });
    expect(plain).not.toBe("000000000000");
    expect(nameFor({ matchLabels: { app: "api", tier: "front" } })).toBe(plain);
    expect(nameFor({ matchLabels: { app: "api" }, matchExpressions: [{ key: "tier", operator: "In", values: ["front", "front"] }] })).toBe(
      plain,
    );
    expect(nameFor({ matchLabels: { app: "api" } })).not.toBe(plain);
  });

  it("is divided by policies in force for this node's endpoints alone", () => {
    const cluster = new SmallCluster().with({
      podSelector: { matchLabels: { app: "elsewhere" } },
      ingress: [{ from: [API, { ipBlock: { cidr: "::/0" } }] }],
    });
    expect(cluster.state.addresses.size).toBe(0);
    expect(cluster.engine.state.blocks).toEqual([]);
    const egress = [{ to: [API] }];
    cluster.with({ podSelector: WEB, policyTypes: ["Ingress"], egress }, "closed");
    expect(cluster.state.addresses.size).toBe(0);
  });

  it("is listed while a predicate mentions it, and says whether the address was a pod's before", () => {
    const cluster = new SmallCluster();
    cluster.engine.take();
    cluster.with({ podSelector: WEB, ingress: [{ from: [API] }] });
    const mentioned = cluster.engine.take();
    expect(mentioned.addresses.size).toBeGreaterThan(0);
    expect(mentioned.moved).toEqual([...mentioned.addresses.keys()]);
    const late = (app: string) => ({ namespace: "shop", name: "late", labels: { app }, addresses: [address("10.0.1.200")], ports: [] });
    cluster.engine.setPeer("shop/late", late("api"));
    const { addresses, moved } = cluster.engine.take();
    expect([[...addresses.keys()], moved]).toEqual([["10.0.1.200"], []]);
    cluster.engine.setPeer("shop/late", late("other"));
    expect(cluster.engine.take()).toMatchObject({ addresses: new Map([["10.0.1.200", undefined]]), moved: ["10.0.1.200"] });
    cluster.engine.setPeer("shop/late", undefined);
    expect(cluster.engine.take()).toMatchObject({ addresses: new Map(), moved: [] });
  });

  it("A5: has the pod's selectors and every block around it, its own /32 too", () => {
    const blocks = ["10.0.0.0/16", "10.0.1.2/32"].map((cidr) => ({ ipBlock: { cidr } }));
    const cluster = new SmallCluster().with({ podSelector: WEB, ingress: [{ from: [...blocks, API] }] });
    const keys = ["block 10.0.0.0/16", "block 10.0.1.2/32", 'pods "shop" [["app","In","api"]]'];
    const name = createHash("sha256").update(keys.join("\n")).digest("hex").slice(0, 12);
    expect(classIn(cluster.state, address("10.0.1.2"))).toBe(name);
  });

  it("P3: of a node is not that of pods, though every pod is selected", () => {
    const cluster = new SmallCluster().with({ podSelector: WEB, ingress: [{ from: [{ namespaceSelector: {} }] }] });
    const { state } = cluster;
    expect(new Set(state.addresses.values()).size).toBe(1);
    expect(classIn(state, address("10.9.9.9"))).toBe("000000000000");
    expect(state.addresses.get("10.0.1.2")).not.toBe("000000000000");
  });

  it("that any rule allows everybody is listed for every class in use, and for those that no rule mentions", () => {
    const cluster = new SmallCluster()
      .with({ podSelector: WEB, ingress: [{ ports: [{ port: 80 }] }, { from: [API], ports: [{ port: 81 }] }] })
      .with({ podSelector: WEB, ingress: [{ from: [{ ipBlock: { cidr: "192.0.2.0/24" } }], ports: [{ port: 82 }] }] });
    const { state } = cluster;
    const inUse = new Set([...state.addresses.values(), ...state.blocks.map((one) => one.class), "000000000000"]);
    expect(new Set(state.endpoints.get("caliweb")?.ingress?.keys())).toEqual(inUse);
    expect(inUse.size).toBe(3);
  });

  it("goes with the last address that had it", () => {
    const cluster = new SmallCluster().with({ podSelector: WEB, ingress: [{ from: [API] }] });
    expect(cluster.state.endpoints.get("caliweb")?.ingress?.size).toBe(1);
    cluster.engine.setPeer("shop/api", undefined);
    expect(cluster.state.endpoints.get("caliweb")?.ingress?.size).toBe(0);
  });
});

describe("a name that two classes share", () => {
  const one = classOf([peerPredicate("one")]);
  const other = { ...classOf([peerPredicate("other")]), name: one.name };

  it("stands for neither, until one of them is gone", () => {
    const table = new ClassTable();
    table.use(one);
    table.takeChanged();
    expect(table.get(one.name)).toBe(one);
    table.use(other);
    expect([table.get(one.name), table.takeChanged(), table.names()]).toEqual([undefined, [one.name], [one.name]]);
    table.drop(one);
    expect([table.get(one.name), table.takeChanged()]).toEqual([other, [one.name]]);
    table.drop(other);
    expect([table.get(one.name), table.takeChanged(), table.names()]).toEqual([undefined, [one.name], []]);
  });
});

describe("what endpoints share", () => {
  const endpoint = (index: number, port = 8080) => ({
    addresses: [address(`10.0.0.${index}`)],
    pod: { namespace: "shop", name: `web-${index}`, labels: { app: "web" }, ports: [{ name: "http", protocol: "TCP", port }] },
  });
  const allow = (...ports: readonly (number | string)[]) => {
    const ingress = [{ ports: ports.map((port) => ({ port })) }, { from: [API], ports: [{ port: 90 }] }];
    return policyObject("shop", "web", { podSelector: WEB, ingress });
  };

  function engineWith(...ports: readonly (number | string)[]): PolicyEngine {
    const engine = new PolicyEngine({ enforcement: "default" });
    engine.setPolicy("shop/web", allow(...ports));
    for (let index = 1; index <= 3; index++) engine.setEndpoint(`cali${index}`, endpoint(index, index === 3 ? 9090 : 8080));
    engine.take();
    return engine;
  }

  it("is one object for equal rules, and one for equal permissions", () => {
    const { state } = engineWith(80);
    const [first, second, third] = ["cali1", "cali2", "cali3"].map((name) => state.endpoints.get(name)?.ingress);
    expect(first).toBe(second);
    expect(first).toBe(third);
    const named = engineWith("http").state;
    const [one, two, three] = ["cali1", "cali2", "cali3"].map((name) => named.endpoints.get(name)?.ingress);
    expect(one).toBe(two);
    expect(one).not.toBe(three);
    expect(one?.get("000000000000")).toEqual([{ protocol: 6, first: 8080, last: 8080 }]);
    expect(three?.get("000000000000")).toEqual([{ protocol: 6, first: 9090, last: 9090 }]);
  });

  it("stays the same object while it allows the same", () => {
    const engine = engineWith(80, 81);
    const before = engine.state.endpoints.get("cali1")?.ingress;
    const nothing: EngineChange = { endpoints: new Map(), addresses: new Map(), blocks: undefined, moved: [] };
    engine.setPolicy("shop/web", { ...allow(81, 80, 80), resourceVersion: "2" });
    expect(engine.take()).toEqual(nothing);
    expect(engine.state.endpoints.get("cali1")?.ingress).toBe(before);
    expect(engine.policies()[0]?.resourceVersion).toBe("2");
    engine.setPolicy("shop/web", allow(80));
    expect([...engine.take().endpoints.keys()]).toEqual(["cali1", "cali2", "cali3"]);
  });

  it("outlives thousands of other permissions that came and went", () => {
    const engine = engineWith(80);
    engine.setEndpoint("calidb", { addresses: [], pod: { namespace: "db", name: "db", labels: {}, ports: [] } });
    engine.take();
    const before = engine.state.endpoints.get("cali1");
    for (let port = 1; port <= 3_000; port++) {
      const spec = { podSelector: {}, ingress: [{ ports: [{ port, endPort: 60_000 }] }] };
      engine.setPolicy("db/db", policyObject("db", "db", spec));
      expect([...engine.take().endpoints.keys()]).toEqual(["calidb"]);
    }
    for (const [name, index] of [
      ["cali1", 1],
      ["cali2", 2],
    ] as const) {
      engine.setEndpoint(name, endpoint(index));
    }
    expect(engine.take().endpoints.size).toBe(0);
    expect(engine.state.endpoints.get("cali1")).toBe(before);
  });
});
