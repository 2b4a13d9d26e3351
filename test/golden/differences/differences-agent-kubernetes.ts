/**
 * What differs on purpose when an agent serves the recordings of Kubernetes, beyond what differs without one. Requests are not compared
 * here: an agent's watches stand in no recording.
 */
import { AGENT_DIFFERENCES } from "./differences-agent.ts";
import { KUBERNETES_DIFFERENCES, KUBERNETES_GENERAL } from "./differences-kubernetes.ts";
import { type DeliberateDifference, differs, type Expectations, type GeneralDifference, type Outcome } from "./expected-difference.ts";
import { ABSENT, LOCK, PRESENT } from "./outcomes.ts";

const REPEATED = "A§11.4: a repeated ADD is answered from the record, after a look at the link";
const OWN_CREDENTIALS = "A§11.7: the agent reads and releases with its own credentials, whatever the call's kubeconfig says";
const BLOCK = "objects > blocks > 10.60.0.0/26";
const PODS_IP = "objects > pods > pod1 > cni.projectcalico.org/podIP";

export const AGENT_KUBERNETES_GENERAL: readonly GeneralDifference[] = [
  ...KUBERNETES_GENERAL,
  {
    name: "the node's lock is not taken where the agent's own queue orders grants",
    reason: "A§11.7: the agent is the only one that grants from the node's blocks in its process; a block's write is compared and swapped",
    suites: ["main"],
    expect: { [`* > files > ${LOCK}`]: ABSENT },
  },
  {
    name: "delegates see the key agent",
    reason: "the replayer puts the key into the network configuration, which a delegate gets whole",
    suites: ["main"],
    expect: { "* > files > * > agent": { is: "require" } },
  },
];

/** The whole DEL is done by the agent, though the call's own kubeconfig leads nowhere. */
const RELEASED: Expectations = {
  [`call 1 > ${BLOCK} > allocations > 0`]: ABSENT,
  [`call 1 > ${BLOCK} > attributes > 0`]: ABSENT,
  [`call 1 > ${BLOCK} > sequenceNumberForAllocation > 0`]: ABSENT,
  [`call 1 > ${BLOCK} > unallocated`]: { is: "1..63 0" },
  [`call 1 > ${BLOCK} > sequenceNumber`]: { is: "T1+2" },
  "call 1 > objects > handles > net1.cid1": ABSENT,
  [`call 1 > ${PODS_IP}`]: { is: "" },
  [`call 1 > ${PODS_IP}s`]: { is: "" },
};

/** What the call's own kubeconfig is used for fails in both DELs: the pod's record is written with it. */
function refused(matches: RegExp): Expectations {
  return { "call 1 > error > msg": { matches }, "call 2 > error > msg": { matches } };
}

/** The base's, without what is said of requests. */
function besides(name: string, reason: string, more: Expectations): Readonly<Record<string, DeliberateDifference>> {
  const base = ALONE[name];
  const expect = base !== undefined && "expect" in base ? base.expect : {};
  return { [name]: differs(base === undefined ? reason : `${base.reason}; ${reason}`, { ...expect, ...more }) };
}

/** Nor of the lock, which the general difference speaks of. */
function withoutRequests(difference: DeliberateDifference): DeliberateDifference | undefined {
  if ("instead" in difference) return difference;
  const entries = Object.entries(difference.expect).filter(([path]) => !path.endsWith(" > requests") && !path.endsWith(` > ${LOCK}`));
  return entries.length === 0 && difference.races === undefined
    ? undefined
    : { ...difference, expect: Object.fromEntries<Outcome>(entries) };
}

const ALONE: Readonly<Record<string, DeliberateDifference>> = Object.fromEntries(
  Object.entries({ ...KUBERNETES_DIFFERENCES, ...AGENT_DIFFERENCES }).flatMap(([name, difference]) => {
    const left = withoutRequests(difference);
    return left === undefined ? [] : [[name, left] as const];
  }),
);

/** The record of the first ADD stays: the pod's annotations instead of the local store's endpoint. */
function firstStays(): Expectations {
  const base = AGENT_DIFFERENCES["main/add-twice-same-id"];
  const expect = base !== undefined && "expect" in base ? base.expect : {};
  return {
    ...Object.fromEntries(Object.entries(expect).filter(([path]) => !path.includes("> endpoints >"))),
    [`call 1 > ${PODS_IP}`]: { is: "10.60.0.0/32" },
    [`call 1 > ${PODS_IP}s`]: { is: "10.60.0.0/32,fd60::/128" },
  };
}

const HANDLE: Outcome = {
  is: { "10.60.0.0/26": 1, wire: { name: "net1.cid1", labels: {}, spec: { deleted: false } } },
};

/** By scenario, "suite/name". */
export const AGENT_KUBERNETES_DIFFERENCES: Readonly<Record<string, DeliberateDifference>> = {
  ...ALONE,
  "main/add-twice-same-id": differs(REPEATED, firstStays()),
  ...besides("main/hostlink-renamed", REPEATED, {
    "call 1 > objects > handles > net1.cid1": HANDLE,
    "call 2 > objects > handles > net1.cid1": HANDLE,
    "call 3 > objects > handles > net1.cid1": HANDLE,
  }),
  ...besides("main/ipaddrs-twice", REPEATED, {
    "call 1 > stdout > value > interfaces > 1 > mac": PRESENT,
    "call 1 > kernel > pod > links > eth0 > address": PRESENT,
    "call 1 > kernel > pod > addresses > eth0 {{link-local of call 1 pod addresses eth0}}/64": ABSENT,
    "call 1 > kernel > pod > addresses > eth0 {{link-local of call 0 pod addresses eth0}}/64": PRESENT,
  }),
  ...besides("main/del-kubeconfig-down", OWN_CREDENTIALS, RELEASED),
  ...besides("main/del-kubeconfig-noroles", OWN_CREDENTIALS, RELEASED),
  ...besides(
    "main/kubeconfig-anonymous",
    OWN_CREDENTIALS,
    refused(/^connection is unauthorized: pods "pod1" is forbidden: User "system:anonymous" /),
  ),
  ...besides("main/kubeconfig-badtoken", OWN_CREDENTIALS, refused(/^connection is unauthorized: Unauthorized \(Pod\(rec\/pod1\); /)),
  ...besides("main/kubeconfig-noroles", OWN_CREDENTIALS, refused(/^connection is unauthorized: pods "pod1" is forbidden: User "noroles" /)),
  ...besides("main/kubeconfig-wrongca", OWN_CREDENTIALS, refused(/^Pod\(rec\/pod1\): PATCH .* certificate signed by unknown authority /)),
};
