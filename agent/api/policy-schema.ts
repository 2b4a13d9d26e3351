/** Describes what the API says of policy. */
import { DIRECTIONS, DROP_REASONS } from "../../dataplane/nftables/policy/log-prefix.ts";
import { PROTOCOL_NAMES } from "../policy/explain.ts";
import { model, type Operations, ref, type Static, Type, words } from "./operation.ts";

const DirectionWord = words(...DIRECTIONS);
const PodName = Type.String({ description: "NAMESPACE/NAME; absent where it is no pod that is known" });

const PolicyEndpoint = model("PolicyEndpoint", "An endpoint of this node that a policy selects.", {
  "host-interface": Type.String(),
  pod: Type.Optional(PodName),
});

const PendingEndpoint = model("PendingEndpoint", "An endpoint for which the kernel does not hold yet what the policies say.", {
  "host-interface": Type.String(),
  pod: Type.Optional(PodName),
  reason: Type.String({ description: "What stands in the way" }),
});
export type PendingEndpoint = Static<typeof PendingEndpoint>;

const PolicyModel = model("Policy", "A NetworkPolicy, as this node sees it.", {
  namespace: Type.String(),
  name: Type.String(),
  uid: Type.String(),
  "resource-version": Type.String({ description: "The version that was read" }),
  directions: Type.Array(DirectionWord, { description: "In which directions it closes what it selects" }),
  endpoints: Type.Array(ref(PolicyEndpoint)),
  problem: Type.Optional(Type.String({ description: "Why it is invalid: it closes what it selects and opens nothing" })),
  realised: Type.Boolean({ description: "The kernel holds this version for every endpoint that it selects" }),
  "realised-version": Type.Optional(Type.String({ description: "The version that the kernel holds; absent: none" })),
  pending: Type.Array(ref(PendingEndpoint)),
});
export type PolicyModel = Static<typeof PolicyModel>;

const UnreadKind = model("UnreadKind", "A kind of policy that exists and that Tortie does not enforce.", {
  kind: Type.String(),
  "at-least": Type.Integer({ description: "There are so many, or more" }),
});

const ClaimConflict = model("ClaimConflict", "An address that several pods claim: for policies it is nobody's.", {
  address: Type.String(),
  pods: Type.Array(Type.String()),
});

export const NodePolicy = model("NodePolicy", "Policy on this node.", {
  enforcement: words("default", "always", "never"),
  gaps: Type.Array(Type.String(), { description: "What keeps the kernel from holding what the objects say; empty: nothing" }),
  unread: Type.Array(ref(UnreadKind)),
  conflicts: Type.Array(ref(ClaimConflict)),
  policies: Type.Array(ref(PolicyModel)),
});
export type NodePolicy = Static<typeof NodePolicy>;

const RuleReference = model("RuleReference", "A rule of a policy.", {
  policy: Type.String({ description: "NAMESPACE/NAME" }),
  direction: DirectionWord,
  rule: Type.Integer({ minimum: 0, description: "Counts from 1; 0: the policy closes, and has no rule that matches" }),
});

const PolicySide = model("PolicySide", "What the policies of one end say of a connection.", {
  workload: Type.String({ description: "NAMESPACE/NAME of the pod, or the host end" }),
  direction: DirectionWord,
  verdict: words("allow", "deny"),
  policies: Type.Array(Type.String(), { description: "Those that select it in this direction; empty: the direction is open" }),
  "decided-by": Type.Optional(ref(RuleReference)),
  peer: Type.String({ description: "The other end" }),
  "peer-class": Type.String({ description: "Class of the other end on this node" }),
  reason: Type.String({ description: "What decided, or what comes nearest and why it does not match" }),
});
export type PolicySide = Static<typeof PolicySide>;

const PolicyEnd = model("PolicyEnd", "An end of a connection, as it was found.", {
  pod: Type.Optional(PodName),
  "host-interface": Type.Optional(Type.String({ description: "Absent where it is not on this node" })),
  addresses: Type.Array(Type.String()),
  identity: Type.Optional(Type.Integer({ description: "Number of the cluster's identity of its labels" })),
});
export type PolicyEnd = Static<typeof PolicyEnd>;

const PolicyVerdict = model("PolicyVerdict", "Whether a connection between two addresses would pass.", {
  family: words("ipv4", "ipv6"),
  source: Type.String(),
  destination: Type.String(),
  verdict: words("allow", "deny"),
  egress: Type.Optional(ref(PolicySide)),
  ingress: Type.Optional(ref(PolicySide)),
  notes: Type.Array(Type.String(), { description: "What the verdict leaves out" }),
});

export const PolicyExplanation = model("PolicyExplanation", "Whether a connection would pass, and what decides.", {
  from: ref(PolicyEnd),
  to: ref(PolicyEnd),
  protocol: words(...PROTOCOL_NAMES),
  port: Type.Optional(Type.Integer()),
  verdicts: Type.Array(ref(PolicyVerdict), { description: "One for each pair of addresses of a family" }),
});
export type PolicyExplanation = Static<typeof PolicyExplanation>;

const DropEnd = model("PolicyDropEnd", "An end of a packet.", {
  address: Type.String(),
  pod: Type.Optional(PodName),
  identity: Type.Optional(Type.Integer({ description: "Number of the cluster's identity of its labels" })),
  port: Type.Optional(Type.Integer()),
});

export const PolicyDrop = model("PolicyDrop", "A packet that was dropped.", {
  time: Type.String({ description: "RFC 3339" }),
  "host-interface": Type.String({ description: "Host end of the endpoint whose policies dropped it" }),
  pod: Type.Optional(PodName),
  direction: DirectionWord,
  reason: words(...DROP_REASONS),
  source: ref(DropEnd),
  destination: ref(DropEnd),
  protocol: Type.String(),
  policies: Type.Array(Type.String()),
  "decided-by": Type.Optional(ref(RuleReference)),
  explanation: Type.String(),
});
export type PolicyDrop = Static<typeof PolicyDrop>;

const DropCount = model("PolicyDropCount", "How many packets were dropped.", {
  direction: DirectionWord,
  reason: words(...DROP_REASONS),
  dropped: Type.Integer({ description: "By the kernel's counter" }),
  shown: Type.Integer({ description: "Seen one by one since the agent's start; the kernel limits how many it tells of" }),
});

export const PolicyDrops = model("PolicyDrops", "The last dropped packets, oldest first.", {
  drops: Type.Array(ref(PolicyDrop)),
  counts: Type.Array(ref(DropCount), { description: "Of the whole node" }),
  missed: Type.Integer({ description: "Told of by the kernel since the agent's start, and not shown: there were too many" }),
});
export type PolicyDrops = Static<typeof PolicyDrops>;

export const PolicyWait = model("PolicyWait", "Whether the kernel holds what the policies say.", {
  realised: Type.Boolean(),
  pending: Type.Array(ref(PendingEndpoint)),
  reasons: Type.Array(Type.String(), { description: "What else stands in the way" }),
});
export type PolicyWait = Static<typeof PolicyWait>;

const PolicyTable = model("PolicyTable", "The packet filter's table, compared with what the policies say.", {
  differences: Type.Array(Type.String(), { description: "What the kernel has, or had, otherwise; empty while it is about to change" }),
});

const NAME = Type.String({ minLength: 1, maxLength: 600 });
const ENDPOINT = Type.Object({
  endpoint: Type.Optional(Type.String({ ...NAME, description: "Of one endpoint: NAMESPACE/POD, POD, address or host end" })),
});
/** A wait ends before whoever asked is sure that nobody answers. */
export const MOST_WAIT_SECONDS = 300;

export const POLICY_OPERATIONS = {
  getPolicy: {
    method: "GET",
    path: "/policy",
    summary: "Policy on this node, with every NetworkPolicy",
    answers: { 200: ref(NodePolicy) },
  },
  comparePolicyTable: {
    method: "GET",
    path: "/policy/table",
    summary: "Compares the packet filter's table with what the policies say, and changes nothing",
    answers: { 200: ref(PolicyTable) },
  },
  mendPolicyTable: {
    method: "POST",
    path: "/policy/table",
    summary: "Compares the packet filter's table with what the policies say, and makes it so at once",
    answers: { 200: ref(PolicyTable) },
  },
  explainPolicy: {
    method: "GET",
    path: "/policy/explain",
    summary: "Whether a connection would pass, and what decides",
    query: Type.Object({
      from: Type.String({ ...NAME, description: "NAMESPACE/POD, POD of this node, address or host end" }),
      to: NAME,
      protocol: Type.Optional(words(...PROTOCOL_NAMES)),
      port: Type.Optional(Type.Integer({ minimum: 0, maximum: 65_535 })),
      "port-name": Type.Optional(
        Type.String({ minLength: 1, maxLength: 63, description: "In place of port: what the pod of `to` calls it" }),
      ),
    }),
    answers: { 200: ref(PolicyExplanation) },
  },
  getPolicyDrops: {
    method: "GET",
    path: "/policy/drops",
    summary: "The last dropped packets, of one endpoint or of all",
    query: ENDPOINT,
    answers: { 200: ref(PolicyDrops) },
  },
  followPolicyDrops: {
    method: "GET",
    path: "/policy/drops/live",
    summary: "Dropped packets as they come, a PolicyDrop on each line, or {missed} with how many a slow reader missed",
    query: ENDPOINT,
    answers: { 200: Type.String() },
    contentType: "application/x-ndjson",
  },
  waitForPolicy: {
    method: "GET",
    path: "/policy/wait",
    summary: "Waits until the kernel holds what the policies say, or the time is over",
    query: Type.Object({
      policy: Type.Optional(Type.String({ ...NAME, description: "NAMESPACE/NAME; default: all" })),
      "resource-version": Type.Optional(Type.String({ maxLength: 64, description: "Of the policy; default: what the server has now" })),
      timeout: Type.Optional(Type.Number({ minimum: 0, maximum: MOST_WAIT_SECONDS, description: "Seconds; default: 30" })),
    }),
    answers: { 200: ref(PolicyWait) },
    // It asks the server for whole lists.
    isRootOnly: true,
  },
} as const satisfies Operations;
