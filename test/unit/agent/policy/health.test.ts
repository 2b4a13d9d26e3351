import { judgePolicy } from "../../../../agent/policy/health.ts";
import type { PolicyView } from "../../../../agent/policy/view.ts";
import type { PolicyStatus } from "../../../../policy/model.ts";
import { POLICY, policyView } from "../../../support/policy-view.ts";

const policy = (key: string, problem?: string): PolicyStatus => ({ ...POLICY, key, problem });

describe("the health of policy", () => {
  it("is in order where everything is enforced", () => {
    expect(judgePolicy(policyView())).toEqual({ state: "ok", message: "0 policies on 3 endpoints" });
    expect(judgePolicy(policyView({ enforcement: "always" })).message).toContain("all others are closed");
  });

  it.each<[string, Partial<PolicyView>, RegExp]>([
    ["a gap", { gaps: () => ["namespaces have not been read"] }, /; namespaces have not been read$/],
    ["endpoints that wait", { pending: () => [{ hostInterface: "caliweb", reason: "" }] }, /; 1 endpoint waits for the packet filter$/],
    [
      "kinds that nobody enforces",
      { unread: () => [{ kind: "AdminNetworkPolicy.policy.networking.k8s.io", atLeast: 3 }] },
      /; at least 3 of AdminNetworkPolicy\.policy\.networking\.k8s\.io exist and are not enforced$/,
    ],
    ["an invalid policy", { policies: () => [policy("a/b", "no"), policy("a/c")] }, /^2 policies .*; a\/b is invalid, and opens nothing$/],
    [
      "many invalid policies",
      { policies: () => ["a", "b", "c", "d", "e"].map((name) => policy(`x/${name}`, "no")) },
      /; x\/a, x\/b, x\/c and 2 more are invalid, and open nothing$/,
    ],
    [
      "an address that two pods claim",
      { conflicts: () => [{ address: "10.0.0.9", pods: ["a/x", "b/y"] }] },
      /; two pods claim 10\.0\.0\.9 \(a\/x and b\/y\)$/,
    ],
    ["enforcement that is turned off", { enforcement: "never" }, /and none is enforced \(--enforcement never\)$/],
  ])("warns of %s, and says what to do", (_name, given, message) => {
    expect(judgePolicy(policyView(given))).toEqual({
      state: "warning",
      message: expect.stringMatching(message),
      next: expect.stringMatching(/\w/),
    });
  });

  it("names all troubles at once", () => {
    const { message } = judgePolicy(policyView({ gaps: () => ["a gap"], policies: () => [policy("a/b", "no")] }));
    expect(message).toMatch(/a gap; a\/b is invalid/);
  });
});
