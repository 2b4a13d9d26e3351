import { type Contention, contentionFor } from "../../../../agent/addresses/ranges/contention.ts";
import type { NodeFacts } from "../../../../agent/addresses/ranges/node-object.ts";
import { prefix } from "../../../support/addresses.ts";

const RANGE = "network.tortie.dev/ipv4-pod-cidr";
const SOURCE = "network.tortie.dev/pod-cidr-source";
const CLAIM = "network.tortie.dev/pod-cidr-claim";
const HELD = { [RANGE]: "10.7.0.0/16", [SOURCE]: "ipv4=automatic" };

function node(name: string, facts: Partial<NodeFacts> = {}): NodeFacts {
  return { name, createdAt: "2026-11-20T10:00:00Z", podCIDRs: [], podCIDR: "", annotations: {}, addresses: [], ...facts };
}

/** What node `b` is told about its range beside this other node. */
function beside(other: NodeFacts, isHeld = false, self: Partial<NodeFacts> = {}): Contention["outcome"] {
  const own = node("b", self);
  return contentionFor(prefix("10.7.0.0/16"), own, isHeld, [own, other]).outcome;
}

describe("an automatic range", () => {
  it("A-C09: is taken when it overlaps with what another node was given or uses, and that node is named", () => {
    const self = node("b");
    const found = contentionFor(prefix("10.7.0.0/16"), self, false, [node("a", { podCIDRs: ["10.7.3.0/24"] }), self]);
    expect(found).toEqual({ outcome: "taken", cause: "automatic range 10.7.0.0/16 overlaps with 10.7.3.0/24 of node a" });
    expect(beside(node("c", { podCIDR: "10.7.3.0/24" }), true)).toBe("taken");
    expect(beside(node("c", { annotations: { [RANGE]: "10.7.3.0/24" } }))).toBe("taken");
    expect(beside(node("c", { annotations: HELD }))).toBe("taken");
    expect(beside(node("c", { podCIDRs: ["10.8.0.0/16"], annotations: { [CLAIM]: "10.9.0.0/16" } }))).toBe("free");
  });

  it("S1: is not lost to the word of another node that is wider, lies outside of what that node was given, or is younger", () => {
    const says = (range: string, facts: Partial<NodeFacts> = {}) => node("a", { annotations: { [RANGE]: range }, ...facts });
    for (const range of ["0.0.0.0/0", "0.0.0.0/1", "10.0.0.0/8"]) {
      expect([beside(says(range)), beside(says(range), true)]).toEqual(["free", "free"]);
    }
    expect(beside(says("10.7.0.0/16", { podCIDRs: ["10.9.0.0/24"] }), true)).toBe("free");
    expect(beside(says("10.7.0.0/17", { createdAt: "2026-11-20T10:00:01Z" }), true)).toBe("yielded");
  });

  it("G10: that two nodes have is kept by the older Node object, then by the first name", () => {
    const older = { annotations: HELD, createdAt: "2026-11-20T09:59:59Z" };
    const younger = { annotations: HELD, createdAt: "2026-11-20T10:00:01Z" };
    expect(beside(node("c", older), true)).toBe("taken");
    expect(beside(node("a", younger), true)).toBe("yielded");
    expect([beside(node("a", { annotations: HELD }), true), beside(node("c", { annotations: HELD }), true)]).toEqual(["taken", "yielded"]);
  });

  it("G10: that two nodes want is contested for the older one, and taken for the other", () => {
    const claim = { annotations: { [CLAIM]: "10.7.0.0/16,f00d::a07:0:0:0/96" } };
    expect([beside(node("a", claim)), beside(node("c", claim))]).toEqual(["taken", "contested"]);
    expect(beside(node("a", claim), true)).toBe("free");
  });

  it("G10: is not kept from a node by a claim of more than that", () => {
    expect(beside(node("a", { annotations: { [CLAIM]: "0.0.0.0/0,10.0.0.0/8,10.7.1.0/24" } }))).toBe("free");
  });
});
