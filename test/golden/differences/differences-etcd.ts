/** What differs on purpose when the recordings made on etcd are played on a real one. */
import { HOST_LOCAL_LINES } from "./differences.ts";
import { IPAM_DIFFERENCES } from "./differences-ipam.ts";
import { type DeliberateDifference, differs, type Expectations, type GeneralDifference } from "./expected-difference.ts";
import { ABSENT, attachmentStays, noAttachment, nothingClaimed, PRESENT, SANDBOX_UNTOUCHED } from "./outcomes.ts";
import { differenceOf } from "./shared-differences.ts";

export const ETCD_GENERAL: readonly GeneralDifference[] = [HOST_LOCAL_LINES];

const GIVEN_UP_LATER = "docs/project/decisions.md: DEL does not ask whether the node is still selected for a block that it leaves empty";

/** As on the local store. */
const SHARED = ["ipam-etcd/dual-no-v6-pool", "ipam-etcd/handle-no-block", "ipam-etcd/legacy-handle", "ipam-etcd/sequence-max"];

/** The block that a DEL has emptied stays its node's. */
function leftEmpty(call: string, cidr: string): Expectations {
  return {
    [`${call} > objects > blocks > ${cidr}`]: {
      is: {
        affinity: "host:node-a",
        claimed: "{{set:claimed 3600 s ago}}",
        size: 64,
        allocations: {},
        unallocated: "1..63 0",
        attributes: [],
        sequenceNumber: "1001",
        sequenceNumberForAllocation: {},
      },
    },
    [`${call} > objects > affinities > node-a ${cidr}`]: { is: { state: "confirmed" } },
  };
}

/** Calico waits for etcd until somebody kills it. */
const FAILS_IN_TIME: Expectations = {
  "* > exit": { is: 1 },
  "* > stdout": ABSENT,
  "* > error": PRESENT,
};

/** The second sandbox has its address and its floating address, and the DEL of the first leaves both alone. */
const SECOND_SANDBOX_WORKS: Expectations = {
  "call 1 > exit": { is: 0 },
  "call 1 > error": ABSENT,
  "call 1 > stdout": PRESENT,
  ...Object.fromEntries(["call 1", "call 2"].map((call) => [`${call} > objects > handles > net1.cid2`, { is: { "10.60.0.0/26": 1 } }])),
  "* > objects > blocks > 10.60.0.0/26 > **": PRESENT,
  "call 1 > objects > endpoints > pod1 > containerID": { is: "cid2" },
  "call 1 > objects > endpoints > pod1 > ips > 0": { is: "10.60.0.1/32" },
  "call 1 > objects > endpoints > pod1 > wire > value > spec > ipNATs > 0 > internalIP": { is: "10.60.0.1" },
  "call 1 > objects > endpoints > pod1 > wire > value > spec > **": PRESENT,
  "call 2 > objects > endpoints > pod1": PRESENT,
  ...attachmentStays("call 2"),
};

/** After both calls for the second interface everything is as after the ADD of the first one. */
const SECOND_INTERFACE_REFUSED: Expectations = {
  "call 1 > exit": { is: 1 },
  "call 1 > stdout": ABSENT,
  "call 1 > error": {
    is: {
      code: 999,
      msg:
        "container cid1 has interface eth0 on network net1 already, by host interface calif3c3d6a083e, " +
        "which interface eth1 on network net1 would take over",
      layout: "indented by 4",
    },
  },
  "call 1 > objects > blocks > 10.60.0.0/26 > allocations > 1": ABSENT,
  "call 1 > objects > blocks > 10.60.0.0/26 > attributes > 1": ABSENT,
  "call 1 > objects > blocks > 10.60.0.0/26 > sequenceNumberForAllocation > 1": ABSENT,
  "call 1 > objects > handles > net1.cid1 > 10.60.0.0/26": { is: 1 },
  "call 2 > objects > blocks > 10.60.0.0/26 > allocations > 0": { is: 0 },
  "call 2 > objects > blocks > 10.60.0.0/26 > attributes > 0": PRESENT,
  "call 2 > objects > blocks > 10.60.0.0/26 > sequenceNumberForAllocation > 0": { is: "T1+0" },
  "call 2 > objects > handles > net1.cid1": { is: { "10.60.0.0/26": 1 } },
  ...Object.fromEntries(
    ["call 1", "call 2"].flatMap((call) => [
      [`${call} > objects > blocks > 10.60.0.0/26 > unallocated`, { is: "1..63" }],
      [`${call} > objects > blocks > 10.60.0.0/26 > sequenceNumber`, { is: "T1+1" }],
      [`${call} > objects > endpoints > pod1 > ips > 0`, { is: "10.60.0.0/32" }],
      [`${call} > objects > endpoints > pod1 > wire > value > spec > ipNetworks > 0`, { is: "10.60.0.0/32" }],
      [`${call} > objects > endpoints > pod1 > wire > value > spec > mac`, { is: "{{MAC of call 0 pod links eth0}}" }],
    ]),
  ),
  ...attachmentStays("call 1"),
  ...attachmentStays("call 2"),
  // What the second interface would have.
  "call 1 > kernel > * > **": ABSENT,
  "call 3 > objects > blocks > 10.60.0.0/26 > unallocated": { is: "1..63 0" },
  "call 3 > objects > blocks > 10.60.0.0/26 > sequenceNumber": { is: "T1+2" },
};

/** By scenario, "suite/name". */
export const ETCD_DIFFERENCES: Readonly<Record<string, DeliberateDifference>> = {
  ...Object.fromEntries(SHARED.map((name) => [name, differenceOf(IPAM_DIFFERENCES, name)])),
  "ipam-etcd/node-selector-changed": differs(GIVEN_UP_LATER, leftEmpty("call 1", "10.40.0.64/26")),
  "ipam-etcd/selector-gone-del": differs(GIVEN_UP_LATER, leftEmpty("call 0", "10.40.0.0/26")),
  "main/etcd-down": differs("design §8: etcd down never comes back; every wait has a limit", FAILS_IN_TIME),
  "main/etcd-k8s-eth1": differs(
    "docs/project/decisions.md: a container has one interface by which a host end gets its name; a second one is refused, and its DEL leaves the first",
    SECOND_INTERFACE_REFUSED,
  ),
  "main/etcd-k8s-stale-del": differs("design §8: floating IPs are replaced at a repeated ADD", SECOND_SANDBOX_WORKS),
  "main/etcd-mesos-namespace": differs("docs/explanation/limitations.md: no label of Mesos moves the endpoint, so that DEL finds it", {
    "call 0 > objects > endpoints > cid1 > wire > key": {
      is: "/calico/resources/v3/projectcalico.org/workloadendpoints/default/node1-cni-cid1-eth0",
    },
    "call 0 > objects > endpoints > cid1 > wire > value > metadata > namespace": { is: "default" },
    "call 0 > objects > endpoints > cid1 > wire > value > metadata > labels > projectcalico.org/namespace": { is: "default" },
    "call 1 > objects > endpoints > cid1": ABSENT,
    "call 2 > objects > endpoints > cid1": ABSENT,
  }),
  "main/etcd-upper-ifname": differs("design §8: names that the store cannot hold are refused before anything is touched", {
    "call 0 > error > msg": { is: "endpoint 'Eth0' cannot be stored: lower-case letters, digits, '-' and '.' are allowed" },
    ...nothingClaimed("call 0", "call 1"),
    ...SANDBOX_UNTOUCHED,
    ...noAttachment("call 0"),
  }),
};
