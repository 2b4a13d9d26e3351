/** What differs on purpose in scenarios of the main plugin on a real API server, with the outcome we want. */

import { MAIN_DIFFERENCES } from "./differences-main.ts";
import type { DeliberateDifference, Expectations, Outcome } from "./expected-difference.ts";
import {
  ABSENT,
  attachmentStays,
  IMPOSSIBLE_NAME,
  LEAVES_NOTHING,
  LOCK,
  noAttachment,
  nothingClaimed,
  PRESENT,
  requests,
  SANDBOX_UNTOUCHED,
} from "./outcomes.ts";
import { differenceOf, withExpectations } from "./shared-differences.ts";

const BLOCK = "10.60.0.0/26";
const POD = "objects > pods > pod1 > cni.projectcalico.org";
const ANNOTATIONS_FIRST = "docs/project/decisions.md: what a pod's annotations ask for is judged before anything is claimed";
const NO_PLACE_FOR_PROFILES =
  "decisions: without policy.type a pod is added all the same; Kubernetes has no place for the network's profile";
const CONFIGURATION_FIRST = "design §8 (policy wait) and invariant 5: what the configuration rules out is refused while it is read";
const ROUTES_FOR_ALL = "design §8: addresses of ipAddrs and ipAddrsNoIpam get their host routes";
const LINK_WITHOUT_CLUSTER = "docs/project/decisions.md: DEL takes the link away before it asks the cluster";
const DEL_IN_SPITE_OF_ANNOTATIONS = "design §8: DEL never depends on what only ADD needs";
const BY_CONTAINER_ID = "design §8: whose annotations they are is told by the container id, not by the pod's node or the interface's name";
const NO_SUCH_NAME = "design §8: a name that Kubernetes cannot store is refused at once, before anything is touched";
const POOLS_UNDER_THE_LOCK = "design, invariant 10: pools are read under the node's lock";
const NO_PANIC = "design §8: one error with a stable code instead of a panic";

/** The scenarios whose difference is the local store's too, to the letter. */
const AS_ON_THE_LOCAL_STORE = [
  "main/add-pod-default-route-exists",
  "main/add-twice-new-id",
  "main/dataplane-grpc",
  "main/del-empty-netns",
  "main/del-foreign-id",
  "main/del-missing-netns",
  "main/del-netns-file",
  "main/delegate-exit-silent",
  "main/dual-host-addrgen-none",
  "main/dual-host-addrgen-random",
  "main/env-no-command",
  "main/hostlocal-routes-not-objects",
  "main/mtu-1279",
  "main/netns-file",
  "main/netns-missing",
  "main/netns-own",
  "main/nodename-newline",
  "main/prefix-long",
  "main/route-same-dev-race",
  "main/route-same-dev-race-dual",
  "main/route6-other-dev",
  "main/version-1.1.0",
];

const ROUTE_4: Outcome = { is: { type: "unicast", protocol: "boot", scope: "link", flags: [] } };
const ROUTE_6: Outcome = { is: { type: "unicast", protocol: "boot", scope: "global", metric: 1024, flags: [], pref: "medium" } };

/** The route to an address of the first pod, which Calico does not make. */
function hostRoute(address: string, ...calls: readonly string[]): Expectations {
  const isIpv6 = address.includes(":");
  const path = `kernel > host > ${isIpv6 ? "routes6" : "routes4"} > ${address} dev calif3c3d6a083e`;
  return Object.fromEntries(calls.map((call) => [`${call} > ${path}`, isIpv6 ? ROUTE_6 : ROUTE_4]));
}

/** Refused before the block is claimed, where Calico claims it and gives the address back; the DELs that follow find nothing. */
const REFUSED_BEFORE_THE_CLAIM: Expectations = nothingClaimed("call 0", "call 1", "call 2");

/** The same where Calico has made the links as well, and leaves them. */
const REFUSED_BEFORE_THE_LINKS: Expectations = { ...REFUSED_BEFORE_THE_CLAIM, ...noAttachment("call 0"), ...SANDBOX_UNTOUCHED };

const NO_HANDLE: Expectations = { "call 0 > objects > handles > net1.cid1": ABSENT };

/** Calico has announced the addresses by then, and DEL leaves the container's id. */
const NO_ANNOUNCEMENT: Expectations = {
  [`call 0 > ${POD}/podIP`]: ABSENT,
  [`call 0 > ${POD}/podIPs`]: ABSENT,
  [`* > ${POD}/containerID`]: ABSENT,
};

function addresses(text: string, ...calls: readonly string[]): Expectations {
  return Object.fromEntries(calls.flatMap((call) => ["podIP", "podIPs"].map((key) => [`${call} > ${POD}/${key}`, { is: text }])));
}

/** A DEL that fails in Calico, and has nothing to say here. */
function succeedsSilently(call: string): Expectations {
  return { [`${call} > exit`]: { is: 0 }, [`${call} > error`]: ABSENT, [`${call} > stdout`]: { is: { text: "" } } };
}

/** A DEL that a bad annotation blocks in Calico, and that does all its work here, for as much as any other DEL. */
const DEL_DONE: Expectations = {
  ...succeedsSilently("call 1"),
  ...noAttachment("call 1"),
  [`call 1 > objects > blocks > ${BLOCK} > allocations > 0`]: ABSENT,
  [`call 1 > objects > blocks > ${BLOCK} > attributes > 0`]: ABSENT,
  [`call 1 > objects > blocks > ${BLOCK} > sequenceNumberForAllocation > 0`]: ABSENT,
  [`call 1 > objects > blocks > ${BLOCK} > unallocated`]: { is: "1..63 0" },
  [`call 1 > objects > blocks > ${BLOCK} > sequenceNumber`]: { is: "T1+2" },
  "call 1 > objects > handles > net1.cid1": ABSENT,
  ...addresses("", "call 1"),
  ...requests({ 1: 8 }),
};

/** A DEL that finds nothing left, although an annotation is bad. */
function delOfNothing(call: string): Expectations {
  return { ...succeedsSilently(call), [`${call} > files > ${LOCK}`]: { is: "" } };
}

/** One address in the block, and how the object is stored. */
function handle(name: string): Outcome {
  return { is: { [BLOCK]: 1, wire: { name, labels: {}, spec: { deleted: false } } } };
}

/** The second container of the pod gets the second address; the DEL of the first leaves it alone (main/add-twice-new-id, with floating IPs). */
const FLOATING_IPS_MOVE_ON: Expectations = {
  "call 1 > exit": { is: 0 },
  "call 1 > error": ABSENT,
  "call 1 > stdout": PRESENT,
  [`call 1 > objects > blocks > ${BLOCK} > unallocated`]: { is: "2..63" },
  [`call 1 > objects > blocks > ${BLOCK} > allocations > 1`]: { is: 1 },
  [`call 1 > objects > blocks > ${BLOCK} > attributes > 1`]: PRESENT,
  [`call 1 > objects > blocks > ${BLOCK} > sequenceNumber`]: { is: "T1+2" },
  [`call 2 > objects > blocks > ${BLOCK} > unallocated`]: { is: "2..63 0" },
  [`call 2 > objects > blocks > ${BLOCK} > allocations > 1`]: { is: 0 },
  [`call 2 > objects > blocks > ${BLOCK} > attributes > 0`]: PRESENT,
  [`call 2 > objects > blocks > ${BLOCK} > sequenceNumber`]: { is: "T1+3" },
  ...Object.fromEntries(
    ["call 1", "call 2"].flatMap((call) => [
      [`${call} > objects > blocks > ${BLOCK} > sequenceNumberForAllocation > 1`, { is: "T1+1" }],
      [`${call} > objects > handles > net1.cid2`, handle("net1.cid2")],
    ]),
  ),
  ...addresses("10.60.0.1/32", "call 1", "call 2"),
  ...attachmentStays("call 2"),
  [`* > ${POD}/containerID`]: { is: "cid2" },
  [`call 3 > objects > blocks > ${BLOCK} > unallocated`]: { is: "2..63 0..1" },
  ...requests({ 3: 8 }),
};

/** By scenario, "suite/name". */
export const KUBERNETES_MAIN_DIFFERENCES: Readonly<Record<string, DeliberateDifference>> = {
  ...Object.fromEntries(AS_ON_THE_LOCAL_STORE.map((name) => [name, differenceOf(MAIN_DIFFERENCES, name)])),
  "main/check-after-damage": withExpectations(differenceOf(MAIN_DIFFERENCES, "main/check-after-damage"), requests({ 1: 2, 2: 2 })),
  "main/cluster-missing": {
    reason: LINK_WITHOUT_CLUSTER,
    expect: noAttachment("call 3"),
  },
  "main/cluster-not-ready": {
    reason: LINK_WITHOUT_CLUSTER,
    expect: noAttachment("call 3"),
  },
  "main/cluster-ready-null": {
    reason: NO_PANIC,
    expect: {
      "* > error > msg": {
        is: "Calico is currently not ready to process requests: datastoreReady of ClusterInformation default is not set",
      },
    },
  },
  "main/del-bad-allowedsourceprefixes": { reason: DEL_IN_SPITE_OF_ANNOTATIONS, expect: DEL_DONE },
  "main/del-bad-floatingips": { reason: DEL_IN_SPITE_OF_ANNOTATIONS, expect: DEL_DONE },
  "main/del-kubeconfig-down": { reason: LINK_WITHOUT_CLUSTER, expect: noAttachment("call 1") },
  "main/del-kubeconfig-noroles": {
    reason: LINK_WITHOUT_CLUSTER,
    expect: noAttachment("call 1"),
  },
  "main/env-no-args": {
    reason: `${DEL_IN_SPITE_OF_ANNOTATIONS}: a container that is no pod has its link and its handle and no annotations`,
    expect: succeedsSilently("call 1"),
  },
  "main/floating-bad-ip": {
    reason: `${NO_PANIC}; ${ANNOTATIONS_FIRST}`,
    expect: {
      "call 0 > error > msg": { matches: /^floating IP "nonsense" is not an IP address \(annotation .* of pod rec\/pod1: / },
      ...REFUSED_BEFORE_THE_LINKS,
      ...NO_HANDLE,
    },
  },
  "main/floating-bad-json": { reason: ANNOTATIONS_FIRST, expect: REFUSED_BEFORE_THE_LINKS },
  "main/floating-family-absent": {
    reason: `${NO_PANIC}; ${ANNOTATIONS_FIRST}`,
    expect: {
      "call 0 > error > msg": { matches: /^floating IP 2001:647f::21 needs an IPv6 address, .* \(annotation .* of pod rec\/pod1: / },
      ...REFUSED_BEFORE_THE_LINKS,
      ...NO_HANDLE,
    },
  },
  "main/floating-off": { reason: ANNOTATIONS_FIRST, expect: REFUSED_BEFORE_THE_LINKS },
  "main/floating-twice": { reason: "design §8: floating IPs are replaced at a repeated ADD", expect: FLOATING_IPS_MOVE_ON },
  "main/hostlink-renamed": withExpectations(differenceOf(MAIN_DIFFERENCES, "main/hostlink-renamed"), {
    ...Object.fromEntries(["call 1", "call 2", "call 3"].map((call) => [`${call} > objects > handles > net1.cid1`, handle("net1.cid1")])),
    ...requests({ 4: 8 }),
  }),
  "main/hwaddr-empty": { reason: ANNOTATIONS_FIRST, expect: { ...REFUSED_BEFORE_THE_CLAIM, ...noAttachment("call 0") } },
  "main/hwaddr-eui64": {
    reason: "docs/project/decisions.md: a MAC address has six octets",
    expect: {
      "call 0 > exit": { is: 1 },
      "call 0 > stdout": ABSENT,
      "call 0 > error": {
        is: {
          code: 999,
          msg:
            "failed to parse MAC address ca:fe:ca:fe:ca:fe:ca:fe provided via cni.projectcalico.org/hwAddr: " +
            "address ca:fe:ca:fe:ca:fe:ca:fe: invalid MAC address: 8 octets instead of 6 " +
            '(annotation cni.projectcalico.org/hwAddr of pod rec/pod1: "ca:fe:ca:fe:ca:fe:ca:fe")',
          layout: "indented by 4",
        },
      },
      ...REFUSED_BEFORE_THE_LINKS,
      ...NO_HANDLE,
      ...NO_ANNOUNCEMENT,
    },
  },
  "main/hwaddr-invalid": { reason: ANNOTATIONS_FIRST, expect: { ...REFUSED_BEFORE_THE_CLAIM, ...noAttachment("call 0") } },
  "main/id-legal-but-not-calico": {
    reason: NO_SUCH_NAME,
    expect: {
      "call 0 > error > msg": {
        is: `network name and container id 'net1, a_b.c' cannot be stored: "net1.a_b.c" is no name that Kubernetes takes`,
      },
      ...nothingClaimed("call 0", "call 1"),
    },
  },
  "main/ifname-upper": { reason: BY_CONTAINER_ID, expect: addresses("", "call 1") },
  "main/ipaddrs": { reason: ROUTES_FOR_ALL, expect: hostRoute("10.60.0.9", "call 0") },
  "main/ipaddrs-dual": { reason: ROUTES_FOR_ALL, expect: { ...hostRoute("10.60.0.9", "call 0"), ...hostRoute("fd60::9", "call 0") } },
  "main/ipaddrs-taken": { reason: ROUTES_FOR_ALL, expect: hostRoute("10.60.0.9", "call 0", "call 1", "call 2") },
  "main/ipaddrs-twice": {
    reason: `${ROUTES_FOR_ALL}; docs/project/decisions.md: a repeated ADD keeps the addresses of ipAddrs; design §8, invariant 7: the newer sandbox's link stays`,
    expect: {
      ...hostRoute("10.60.0.9", "call 0", "call 1", "call 2"),
      ...attachmentStays("call 3"),
      ...Object.fromEntries(
        // The repetition of the same container writes nothing, so that every later number is two less than Calico's.
        Object.entries({ "call 1": [1, 0], "call 2": [3, 2], "call 3": [3, 2] }).flatMap(([call, [sequence, granted]]) => [
          [`${call} > objects > blocks > ${BLOCK} > sequenceNumber`, { is: `T1+${sequence}` }],
          [`${call} > objects > blocks > ${BLOCK} > sequenceNumberForAllocation > 9`, { is: `T1+${granted}` }],
        ]),
      ),
      [`call 4 > objects > blocks > ${BLOCK} > sequenceNumber`]: { is: "T1+4" },
    },
  },
  "main/ipfamilies-empty": {
    reason: "docs/project/decisions.md: an ADD that asks for no address takes no lock",
    expect: { [`call 0 > files > ${LOCK}`]: ABSENT },
  },
  "main/kubeconfig-nopatch": {
    reason: `${LEAVES_NOTHING}; docs/project/decisions.md: DEL takes the link away first, and keeps the address while the annotations stay`,
    expect: { ...noAttachment("call 0"), ...noAttachment("call 1"), ...noAttachment("call 2") },
  },
  "main/name-dots": {
    reason: NO_SUCH_NAME,
    expect: {
      "call 0 > error > msg": {
        is: `network name and container id 'a.b_c-d, cid1' cannot be stored: "a.b_c-d.cid1" is no name that Kubernetes takes`,
      },
      ...REFUSED_BEFORE_THE_CLAIM,
    },
  },
  "main/no-policy": { reason: NO_PLACE_FOR_PROFILES, instead: { of: "main/policy-type-other" } },
  "main/nodename-uppercase": {
    reason: IMPOSSIBLE_NAME,
    expect: { [`call 0 > files > ${LOCK}`]: ABSENT },
  },
  "main/noipam": { reason: ROUTES_FOR_ALL, expect: { ...hostRoute("10.99.0.1", "call 0"), ...hostRoute("fd99::1", "call 0") } },
  "main/noipam-outside-pools": { reason: ROUTES_FOR_ALL, expect: hostRoute("10.99.0.1", "call 0") },
  "main/pod-other-node": { reason: BY_CONTAINER_ID, expect: addresses("", "call 1", "call 2") },
  "main/policy-timeout--1": {
    reason: CONFIGURATION_FIRST,
    expect: { ...REFUSED_BEFORE_THE_LINKS, ...NO_HANDLE, ...NO_ANNOUNCEMENT },
  },
  "main/pools-unknown-name": {
    reason: `${POOLS_UNDER_THE_LOCK}, where a list that may be old is made again before the ADD is refused`,
    expect: { [`call 0 > files > ${LOCK}`]: { is: "" }, ...requests({ 0: 6 }) },
  },
  "main/pools-wrong-family": { reason: POOLS_UNDER_THE_LOCK, expect: { [`call 0 > files > ${LOCK}`]: { is: "" } } },
  "main/spoof-empty-entry": {
    reason: DEL_IN_SPITE_OF_ANNOTATIONS,
    expect: { ...delOfNothing("call 1"), ...delOfNothing("call 2"), ...requests({ 1: 4, 2: 4 }) },
  },
  "main/spoof-no-mask": {
    reason: DEL_IN_SPITE_OF_ANNOTATIONS,
    expect: { ...delOfNothing("call 1"), ...delOfNothing("call 2"), ...requests({ 1: 4, 2: 4 }) },
  },
  "main/spy-annotations": {
    reason: "design §8: numbers in a forwarded netconf keep their digits",
    expect: { "* > files > {{run}}/spy/ADD/stdin > unknown > big": { is: "12345678901234567890" } },
  },
  "main/spy-hostlocal": {
    reason: "design §8: DEL of usePodCidr gives host-local a configuration that it accepts",
    expect: { "* > files > {{run}}/spy/DEL/stdin > ipam > ranges > 1": ABSENT },
  },
};
