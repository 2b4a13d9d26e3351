import { type PolicyFacts, policyFindings } from "../../../doctor/policy.ts";

const SOUND: PolicyFacts = {
  isEnforced: true,
  isServed: true,
  hostEnds: [
    { name: "cali1", bridge: undefined },
    { name: "cali2", bridge: undefined },
  ],
  known: new Set(["cali1", "cali2"]),
  differences: [],
  hasFelix: false,
  hasIpvs: false,
  unread: [],
  unenforced: undefined,
};

const OFF = { isEnforced: false, known: undefined } as const;

const found = (facts: Partial<PolicyFacts>) => policyFindings({ ...SOUND, ...facts });

describe("The judgement of policy on a node", () => {
  it.each<[string, Partial<PolicyFacts>]>([
    ["everything is as it should be", {}],
    ["policy is off and there are no objects", { ...OFF }],
    [
      "Felix enforces what there is, in Tortie's place",
      { ...OFF, hasFelix: true, unenforced: "some", unread: [{ kind: "GlobalNetworkPolicy", atLeast: 1 }] },
    ],
    ["IPVS and a bridge are there, but policy is off", { ...OFF, hasIpvs: true, hostEnds: [{ name: "cali1", bridge: "br0" }] }],
  ])("finds nothing where %s", (_where, facts) => {
    expect(found(facts)).toEqual([]);
  });

  it.each<[string, string, Partial<PolicyFacts>]>([
    ["policy-table-missing", "the table is gone while policy is on", { known: undefined }],
    ["policy-table-edited", "the table differs", { differences: ["chain from-pod"] }],
    ["policy-table-left", "a table was left", { isEnforced: false }],
    ["policy-endpoint-unknown", "the map lacks a host end", { known: new Set(["cali1"]) }],
    ["policy-felix", "Felix judges too", { hasFelix: true }],
    ["policy-ipvs", "Services go through IPVS", { hasIpvs: true }],
    ["policy-bridge", "a host end is a port of a bridge", { hostEnds: [{ name: "cali1", bridge: "br0" }] }],
    ["policy-unread", "nobody reads a kind", { unread: [{ kind: "GlobalNetworkPolicy", atLeast: 2 }] }],
    ["policy-unenforced", "policy is off", { ...OFF, unenforced: "there is at least 1 NetworkPolicy object" }],
  ])("finds %s where %s, and nothing else", (kind, _where, facts) => {
    expect(found(facts).map((one) => one.kind)).toEqual([kind]);
  });

  it("names what is concerned, and says that no agent can help", () => {
    const [left, finding] = found({ known: new Set(["cali1"]), isServed: false, isEnforced: undefined });
    expect(left).toMatchObject({ kind: "policy-table-left", message: expect.stringContaining("no agent answers, but the kernel") });
    expect(finding?.message).toBe(
      "1 pod is closed because nobody has said what they may do (cali2), and no agent is there to speak for them",
    );
    expect(finding?.next).toContain("tortiectl policy off");
  });

  it("names a long list by its first ones and the rest as a number", () => {
    const hostEnds = Array.from({ length: 40 }, (_, index) => ({ name: `cali${index}`, bridge: "br0" }));
    const [finding] = found({ hostEnds, known: new Set(hostEnds.map(({ name }) => name)) });
    expect(finding?.message).toContain("cali0 of br0");
    expect(finding?.message).toContain("and 34 more");
  });
});
