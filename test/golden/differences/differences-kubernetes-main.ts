/** What differs on purpose in scenarios of the main plugin on a real API server, with the outcome we want. */

import { words } from "../../support/words.ts";
import { MAIN_DIFFERENCES } from "./differences-main.ts";
import { type DeliberateDifference, differs, type Expectations, endsAs, type Outcome } from "./expected-difference.ts";
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
  succeedsSilently,
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
const AS_ON_THE_LOCAL_STORE = words`
  main/add-pod-default-route-exists main/add-pod-eth0-exists main/add-twice-new-id main/del-empty-netns main/del-foreign-id
  main/del-missing-netns main/delegate-exit-silent main/dual-host-addrgen-none
  main/dual-host-addrgen-random main/env-no-command main/hostlocal-routes-not-objects main/mtu-1279 main/netns-file
  main/netns-missing main/netns-own main/nodename-newline main/prefix-long main/route-same-dev-race
  main/route-same-dev-race-dual main/route6-other-dev main/version-1.1.0
`;

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
  "main/cluster-missing": differs(LINK_WITHOUT_CLUSTER, noAttachment("call 3")),
  "main/cluster-not-ready": differs(LINK_WITHOUT_CLUSTER, noAttachment("call 3")),
  "main/cluster-ready-null": differs(NO_PANIC, {
    "* > error > msg": {
      is: "Calico is currently not ready to process requests: datastoreReady of ClusterInformation default is not set",
    },
  }),
  "main/dataplane-bogus": withExpectations(differenceOf(MAIN_DIFFERENCES, "main/dataplane-bogus"), requests({ 1: 4, 2: 4 })),
  "main/dataplane-grpc": withExpectations(differenceOf(MAIN_DIFFERENCES, "main/dataplane-grpc"), requests({ 1: 4, 2: 4 })),
  "main/del-bad-allowedsourceprefixes": differs(DEL_IN_SPITE_OF_ANNOTATIONS, DEL_DONE),
  "main/del-bad-floatingips": differs(DEL_IN_SPITE_OF_ANNOTATIONS, DEL_DONE),
  "main/del-kubeconfig-down": differs(LINK_WITHOUT_CLUSTER, noAttachment("call 1")),
  "main/del-netns-file": withExpectations(differenceOf(MAIN_DIFFERENCES, "main/del-netns-file"), requests({ 1: 8 })),
  "main/del-kubeconfig-noroles": differs(LINK_WITHOUT_CLUSTER, noAttachment("call 1")),
  "main/env-no-args": differs(
    `${DEL_IN_SPITE_OF_ANNOTATIONS}: a container that is no pod has its link and its handle and no annotations`,
    succeedsSilently("call 1"),
  ),
  "main/floating-bad-ip": differs(`${NO_PANIC}; ${ANNOTATIONS_FIRST}`, {
    "call 0 > error > msg": { matches: /^floating IP "nonsense" is not an IP address \(annotation .* of pod rec\/pod1: / },
    ...REFUSED_BEFORE_THE_LINKS,
    ...NO_HANDLE,
  }),
  "main/floating-bad-json": differs(ANNOTATIONS_FIRST, REFUSED_BEFORE_THE_LINKS),
  "main/floating-family-absent": differs(`${NO_PANIC}; ${ANNOTATIONS_FIRST}`, {
    "call 0 > error > msg": { matches: /^floating IP 2001:647f::21 needs an IPv6 address, .* \(annotation .* of pod rec\/pod1: / },
    ...REFUSED_BEFORE_THE_LINKS,
    ...NO_HANDLE,
  }),
  "main/floating-off": differs(ANNOTATIONS_FIRST, REFUSED_BEFORE_THE_LINKS),
  "main/floating-twice": differs("design §8: floating IPs are replaced at a repeated ADD", FLOATING_IPS_MOVE_ON),
  "main/hostlink-renamed": withExpectations(differenceOf(MAIN_DIFFERENCES, "main/hostlink-renamed"), {
    ...Object.fromEntries(["call 1", "call 2", "call 3"].map((call) => [`${call} > objects > handles > net1.cid1`, handle("net1.cid1")])),
    ...requests({ 4: 8 }),
  }),
  "main/hwaddr-empty": differs(ANNOTATIONS_FIRST, { ...REFUSED_BEFORE_THE_CLAIM, ...noAttachment("call 0") }),
  "main/hwaddr-eui64": differs("docs/project/decisions.md: a MAC address has six octets", {
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
  }),
  "main/hwaddr-invalid": differs(ANNOTATIONS_FIRST, { ...REFUSED_BEFORE_THE_CLAIM, ...noAttachment("call 0") }),
  "main/id-legal-but-not-calico": differs(NO_SUCH_NAME, {
    "call 0 > error > msg": {
      is: `network name and container id 'net1, a_b.c' cannot be stored: "net1.a_b.c" is no name that Kubernetes takes`,
    },
    ...nothingClaimed("call 0", "call 1"),
  }),
  "main/ifname-upper": differs(BY_CONTAINER_ID, addresses("", "call 1")),
  "main/ipaddrs": differs(ROUTES_FOR_ALL, hostRoute("10.60.0.9", "call 0")),
  "main/ipaddrs-dual": differs(ROUTES_FOR_ALL, { ...hostRoute("10.60.0.9", "call 0"), ...hostRoute("fd60::9", "call 0") }),
  "main/ipaddrs-taken": differs(ROUTES_FOR_ALL, hostRoute("10.60.0.9", "call 0", "call 1", "call 2")),
  "main/ipaddrs-twice": differs(
    `${ROUTES_FOR_ALL}; docs/project/decisions.md: a repeated ADD keeps the addresses of ipAddrs; design §8, invariant 7: the newer sandbox's link stays`,
    {
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
  ),
  "main/ipfamilies-empty": differs("docs/project/decisions.md: an ADD that asks for no address takes no lock", {
    [`call 0 > files > ${LOCK}`]: ABSENT,
  }),
  "main/kubeconfig-nopatch": differs(
    `${LEAVES_NOTHING}; docs/project/decisions.md: DEL takes the link away first, and keeps the address while the annotations stay`,
    { ...noAttachment("call 0"), ...noAttachment("call 1"), ...noAttachment("call 2") },
  ),
  "main/name-dots": differs(NO_SUCH_NAME, {
    "call 0 > error > msg": {
      is: `network name and container id 'a.b_c-d, cid1' cannot be stored: "a.b_c-d.cid1" is no name that Kubernetes takes`,
    },
    ...REFUSED_BEFORE_THE_CLAIM,
  }),
  "main/no-policy": endsAs("main/policy-type-other", NO_PLACE_FOR_PROFILES),
  "main/nodename-file-missing": differs(
    "docs/project/decisions.md: what keeps the cluster from answering is named before a missing file, and a DEL does not need the file",
    { ...delOfNothing("call 1"), ...delOfNothing("call 2"), ...requests({ 0: 2, 1: 4, 2: 4 }) },
  ),
  "main/nodename-uppercase": differs(IMPOSSIBLE_NAME, { [`call 0 > files > ${LOCK}`]: ABSENT }),
  "main/noipam": differs(ROUTES_FOR_ALL, { ...hostRoute("10.99.0.1", "call 0"), ...hostRoute("fd99::1", "call 0") }),
  "main/noipam-outside-pools": differs(ROUTES_FOR_ALL, hostRoute("10.99.0.1", "call 0")),
  "main/pod-other-node": differs(BY_CONTAINER_ID, addresses("", "call 1", "call 2")),
  "main/policy-timeout--1": differs(CONFIGURATION_FIRST, { ...REFUSED_BEFORE_THE_LINKS, ...NO_HANDLE, ...NO_ANNOUNCEMENT }),
  "main/pools-unknown-name": differs(`${POOLS_UNDER_THE_LOCK}, where a list that may be old is made again before the ADD is refused`, {
    [`call 0 > files > ${LOCK}`]: { is: "" },
    ...requests({ 0: 6 }),
  }),
  "main/pools-wrong-family": differs(POOLS_UNDER_THE_LOCK, { [`call 0 > files > ${LOCK}`]: { is: "" } }),
  "main/spoof-empty-entry": differs(DEL_IN_SPITE_OF_ANNOTATIONS, {
    ...delOfNothing("call 1"),
    ...delOfNothing("call 2"),
    ...requests({ 1: 4, 2: 4 }),
  }),
  "main/spoof-no-mask": differs(DEL_IN_SPITE_OF_ANNOTATIONS, {
    ...delOfNothing("call 1"),
    ...delOfNothing("call 2"),
    ...requests({ 1: 4, 2: 4 }),
  }),
  "main/spy-annotations": differs("design §8: numbers in a forwarded netconf keep their digits", {
    "* > files > {{run}}/spy/ADD/stdin > unknown > big": { is: "12345678901234567890" },
  }),
  "main/spy-hostlocal": differs("design §8: DEL of usePodCidr gives host-local a configuration that it accepts", {
    "* > files > {{run}}/spy/DEL/stdin > ipam > ranges > 1": ABSENT,
  }),
};
