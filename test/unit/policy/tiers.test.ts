/** Rules of tiers that allow, deny and pass, as later kinds of policy have them: fed to the engine in its translated form. */
import { PolicyEngine } from "../../../policy/engine.ts";
import { collapse, type ResolvedTier } from "../../../policy/permissions.ts";
import { type Action, type Policy, type PortRange, podPeer, type Rule, type Tier } from "../../../policy/rules.ts";
import { selectorOf } from "../../../policy/selector.ts";
import { address } from "../../support/addresses.ts";
import { filterVerdict } from "../../support/policy/packet-judge.ts";

const ADMIN: Tier = { order: -10, otherwise: "pass" };
const PROJECT: Tier = { order: 0, otherwise: "deny" };
const BASELINE: Tier = { order: 10, otherwise: "pass" };

const tcp = (first: number, last = first): PortRange => ({ kind: "range", protocol: 6, first, last });
const udp = (first: number, last = first): PortRange => ({ kind: "range", protocol: 17, first, last });

const acting =
  (action: Action) =>
  (...ports: readonly PortRange[]) => ({ action, ports: ports.length === 0 ? ("all" as const) : ports });
const [allow, deny, pass] = [acting("allow"), acting("deny"), acting("pass")];
const admin = (...rules: ResolvedTier["rules"]): ResolvedTier => ({ otherwise: "pass", rules });
const project = (...rules: ResolvedTier["rules"]): ResolvedTier => ({ otherwise: "deny", rules });

const range = (protocol: number, first: number, last = first) => ({ protocol, first, last });

describe("what ordered rules allow in the end", () => {
  it("P13: the first rule that names a port decides in its tier", () => {
    expect(collapse([project(deny(tcp(80)), allow(tcp(1, 100)))], "allow")).toEqual([range(6, 1, 79), range(6, 81, 100)]);
    expect(collapse([project(allow(tcp(80)), deny(tcp(1, 100)))], "allow")).toEqual([range(6, 80)]);
    expect(collapse([project(deny(), allow(tcp(80)))], "allow")).toBeUndefined();
  });

  it("P13: a pass leaves the port to the next tier, past the rest of its own", () => {
    const later = project(allow(tcp(80, 81)));
    expect(collapse([admin(pass(tcp(80)), deny(tcp(1, 100))), later], "allow")).toEqual([range(6, 80)]);
    expect(collapse([admin(deny(tcp(80))), later], "allow")).toEqual([range(6, 81)]);
    expect(collapse([admin(allow(tcp(90))), later], "allow")).toEqual([range(6, 80, 81), range(6, 90)]);
    expect(collapse([project(pass(tcp(90))), project(allow(tcp(90, 91)))], "allow")).toEqual([range(6, 90)]);
  });

  it("where every tier passes, the node's mode decides", () => {
    expect(collapse([admin()], "allow")).toBe("all");
    expect(collapse([], "allow")).toBe("all");
    expect(collapse([admin()], "deny")).toBeUndefined();
    expect(collapse([admin(), project()], "allow")).toBeUndefined();
    expect(collapse([admin(pass()), admin(pass(tcp(80)))], "allow")).toBe("all");
  });

  it("everything but a port is every other protocol, and the port's own without it", () => {
    const permission = collapse([admin(deny(tcp(80), udp(0, 65_535)))], "allow");
    expect(permission).toHaveLength(256);
    expect(permission).toContainEqual(range(6, 0, 79));
    expect(permission).toContainEqual(range(6, 81, 65_535));
    expect(permission).toContainEqual(range(1, 0, 65_535));
    expect(permission).not.toContainEqual(expect.objectContaining({ protocol: 17 }));
  });

  it("intervals that meet become one, of each protocol by itself", () => {
    expect(collapse([project(allow(tcp(80)), allow(udp(81)), allow(tcp(82), tcp(81)))], "allow")).toEqual([
      range(6, 80, 82),
      range(17, 81),
    ]);
    expect(collapse([project(allow(tcp(0, 65_535), udp(0, 65_535)))], "allow")).toEqual([range(6, 0, 65_535), range(17, 0, 65_535)]);
    expect(collapse([project(allow(tcp(80)), allow())], "allow")).toBe("all");
  });
});

describe("tiers of policies in the engine", () => {
  const everybody = selectorOf([]);
  const rules = (...actions: readonly ReturnType<typeof allow>[]): readonly Rule[] =>
    actions.map((action, index) => ({ ...action, number: index + 1, peers: "any" }));

  function policy(name: string, tier: Tier, ingress: readonly Rule[], order = 0): Policy {
    const subject = podPeer(everybody, everybody);
    return { key: `any/${name}`, uid: "1", resourceVersion: "1", tier, order, subject, ingress, egress: undefined, problem: undefined };
  }

  function judged(port: number, ...policies: readonly Policy[]) {
    const engine = new PolicyEngine({ enforcement: "default" });
    for (const one of policies) engine.setRules(one.key, one);
    const pod = { namespace: "shop", name: "web", labels: {}, ports: [] };
    engine.setEndpoint("cali0", { addresses: [address("10.0.0.1")], pod });
    engine.take();
    const source = address("192.0.2.1");
    const side = engine.judge({ source, destination: address("10.0.0.1"), protocol: 6, port }).ingress;
    expect(filterVerdict(engine.state, "cali0", "ingress", source, 6, port)).toBe(side?.verdict);
    return side;
  }

  it("are asked by their order, policies of a tier by theirs, then by name", () => {
    const closed = policy("closed", PROJECT, rules());
    expect(judged(80, closed, policy("first", ADMIN, rules(allow(tcp(80)))))?.verdict).toBe("allow");
    expect(judged(80, closed, policy("last", BASELINE, rules(allow(tcp(80)))))?.verdict).toBe("deny");
    const denying = policy("a", ADMIN, rules(deny(tcp(80))), 2);
    expect(judged(80, denying, policy("b", ADMIN, rules(allow(tcp(80))), 1))?.decidedBy).toEqual({
      policy: "any/b",
      direction: "ingress",
      rule: 1,
    });
    expect(judged(80, denying, policy("b", ADMIN, rules(allow(tcp(80))), 2))?.decidedBy?.policy).toBe("any/a");
  });

  it("are named by the reason", () => {
    const denying = policy("a", ADMIN, rules(pass(tcp(81)), deny(tcp(80))));
    expect(judged(80, denying)?.reason).toBe("rule 2 of any/a denies port 80/TCP from 192.0.2.1 (everybody)");
    expect(judged(81, denying)).toMatchObject({ verdict: "allow", reason: "every policy passes on shop/web in ingress" });
  });

  it("follow the labels of the subject's namespace", () => {
    const subject = podPeer(selectorOf([{ key: "team", operator: "In", values: new Set(["red"]) }]), everybody);
    const engine = new PolicyEngine({ enforcement: "default" });
    engine.setRules("any/red", { ...policy("red", PROJECT, rules()), subject });
    engine.setEndpoint("cali0", { addresses: [], pod: { namespace: "shop", name: "web", labels: {}, ports: [] } });
    engine.take();
    const isOpen = () => engine.state.endpoints.get("cali0")?.ingress === undefined;
    expect(isOpen()).toBe(true);
    engine.setNamespace("shop", { team: "red" });
    expect([...engine.take().endpoints.keys()]).toEqual(["cali0"]);
    expect(isOpen()).toBe(false);
    engine.setNamespace("shop", { team: "blue" });
    engine.take();
    expect(isOpen()).toBe(true);
  });
});
