/** What an agent knows of policy, as a test says: two pods of this node, shop/web and shop/db, and one elsewhere, shop/far. */
import type { Drop } from "../../agent/policy/drop.ts";
import type { DropHistory, PolicyView, ViewedEndpoint } from "../../agent/policy/view.ts";
import { formatAddress } from "../../lib/addresses/address.ts";
import type { NewEndpoint } from "../../main-plugin/policy.ts";
import type { Judgement, PolicyStatus, SideJudgement } from "../../policy/model.ts";
import { address } from "./addresses.ts";

export const ENDPOINTS: readonly ViewedEndpoint[] = [
  { hostInterface: "caliweb", pod: "shop/web", addresses: ["10.0.0.2", "fd00::2"].map(address) },
  { hostInterface: "calidb", pod: "shop/db", addresses: ["10.0.0.1", "fd00::1"].map(address) },
  { hostInterface: "calibare", pod: undefined, addresses: [address("10.0.0.3")] },
];

export const DENIES: SideJudgement = {
  workload: "shop/web",
  direction: "ingress",
  verdict: "deny",
  policies: ["shop/close"],
  decidedBy: { policy: "shop/close", direction: "ingress", rule: 0 },
  peerClass: "0123456789ab",
  peer: "shop/db",
  reason: "no rule of shop/close allows port 8081; rule 2 allows 8080 to these peers",
  lacksPorts: false,
};
export const ALLOWS: SideJudgement = {
  ...DENIES,
  workload: "shop/db",
  direction: "egress",
  verdict: "allow",
  policies: [],
  decidedBy: undefined,
  peer: "shop/web",
  reason: "no policy selects shop/db in this direction",
};
export const DENIED: Judgement = { verdict: "deny", egress: ALLOWS, ingress: DENIES };

export const POLICY: PolicyStatus = {
  key: "shop/close",
  uid: "7",
  resourceVersion: "41",
  directions: ["ingress"],
  endpoints: ["caliweb"],
  problem: undefined,
};

/** What POLICY dropped of shop/db on its way to shop/web. */
export const DROP: Drop = {
  time: "2026-01-02T03:04:05.678Z",
  hostInterface: "caliweb",
  pod: "shop/web",
  direction: "ingress",
  reason: "denied",
  source: { address: "10.0.0.1", pod: "shop/db", port: 40_000, identity: undefined },
  destination: { address: "10.0.0.2", pod: "shop/web", port: 8081, identity: undefined },
  protocol: "TCP",
  policies: ["shop/close"],
  decidedBy: { policy: "shop/close", direction: "ingress", rule: 0 },
  explanation: "no rule of shop/close allows port 8081",
};

/** What an ADD of shop/web tells before it makes the link. */
export const NEW: NewEndpoint = {
  hostInterface: "cali1",
  addresses: [address("10.0.0.1")],
  pod: { namespace: "shop", name: "web", uid: "u1", runtimeUid: undefined, labels: {} },
};

const NO_DROPS: DropHistory = { recent: () => [], missed: 0, shown: () => [], follow: () => () => undefined };

export function policyView(given: Partial<PolicyView> = {}): PolicyView {
  return {
    enforcement: "default",
    gaps: () => [],
    unsynced: () => [],
    unread: () => [],
    conflicts: () => [],
    figures: () => ({ classes: 0, elements: 0 }),
    policies: () => [],
    judge: () => DENIED,
    endpoints: () => ENDPOINTS,
    isClosed: () => false,
    addressesOf: (pod) => (pod === "shop/far" ? [address("10.9.0.1")] : []),
    podAt: (one) => (formatAddress(one) === "10.9.0.1" ? "shop/far" : undefined),
    portsOf: async () => [],
    identityOf: (pod) => (pod === "shop/web" ? 4711 : undefined),
    realisation: () => ({ resourceVersion: "1", pending: [] }),
    pending: () => [],
    caughtUp: async () => undefined,
    changed: async () => undefined,
    drops: NO_DROPS,
    mend: async () => [],
    differences: async () => [],
    judged: async () => [],
    counters: async () => [],
    ...given,
  };
}
