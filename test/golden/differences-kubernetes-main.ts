/** What differs on purpose in scenarios of the main plugin on a real API server, with the outcome we want. */
import type { DeliberateDifference, Expectations, Outcome } from "./deliberate.ts";
import {
  ABSENT,
  FIRST_KEEPS_ITS_ADDRESS,
  LEAVES_NOTHING,
  LINK_FIRST,
  LINK_OF_NEWER,
  LOCK,
  MAIN_DIFFERENCES,
  noAttachment,
  nothingClaimed,
  sandboxSettings,
} from "./differences-main.ts";

const PRESENT: Outcome = { present: true };
const BLOCK = "10.60.0.0/26";
const REFUSED_FIRST =
  "design §8 and invariant 5: what the pod's annotations or the configuration forbid is refused before anything is claimed";
const ROUTES_FOR_ALL = "design §8: addresses of ipAddrs and ipAddrsNoIpam get their host routes";
const NOT_WITHOUT_CLUSTER = "invariants 3 and 4: the link goes even when the cluster cannot be asked, the address when it can";
const DEL_IN_SPITE_OF_ANNOTATIONS = "design §8: DEL never depends on what only ADD needs";
const NO_SUCH_NAME = "design §8: a name that Kubernetes cannot store is refused at once, before anything is touched";

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

/** An ADD that Calico gives up with the links made and the block claimed, refused before either; its DELs find nothing. */
const REFUSED_BEFORE_THE_CLAIM: Expectations = {
  ...nothingClaimed("call 0", "call 1", "call 2"),
  ...noAttachment("call 0"),
  ...sandboxSettings("ipv4/ip_forward"),
};

const NO_ANNOTATIONS: Expectations = {
  "call 0 > objects > pods > pod1 > cni.projectcalico.org/podIP": ABSENT,
  "call 0 > objects > pods > pod1 > cni.projectcalico.org/podIPs": ABSENT,
  "* > objects > pods > pod1 > cni.projectcalico.org/containerID": ABSENT,
};

const NO_HANDLE: Expectations = { "call 0 > objects > handles > net1.cid1": ABSENT };

/** A DEL that a bad annotation blocks in Calico, and that does all its work here. */
const DEL_DONE: Expectations = {
  "call 1 > exit": { is: 0 },
  "call 1 > error": ABSENT,
  "call 1 > stdout": { is: { text: "" } },
  "call 1 > kernel > host > **": ABSENT,
  "call 1 > kernel > pod > **": ABSENT,
  [`call 1 > objects > blocks > ${BLOCK} > allocations > 0`]: ABSENT,
  [`call 1 > objects > blocks > ${BLOCK} > attributes > 0`]: ABSENT,
  [`call 1 > objects > blocks > ${BLOCK} > sequenceNumberForAllocation > 0`]: ABSENT,
  [`call 1 > objects > blocks > ${BLOCK} > unallocated`]: { is: "1..63 0" },
  [`call 1 > objects > blocks > ${BLOCK} > sequenceNumber`]: { is: "T1+2" },
  "call 1 > objects > handles > net1.cid1": ABSENT,
  "call 1 > objects > pods > pod1 > cni.projectcalico.org/podIP": { is: "" },
  "call 1 > objects > pods > pod1 > cni.projectcalico.org/podIPs": { is: "" },
  "call 1 > requests": { atMost: 8 },
};

/** The link is away after this call, in which Calico leaves it. */
function linkGone(call: string): Expectations {
  return { [`${call} > kernel > host > **`]: ABSENT, [`${call} > kernel > pod > **`]: ABSENT };
}

/** A DEL of nothing that succeeds although an annotation is bad. */
function delOfNothing(call: string): Expectations {
  return {
    [`${call} > exit`]: { is: 0 },
    [`${call} > error`]: ABSENT,
    [`${call} > stdout`]: { is: { text: "" } },
    [`${call} > files > ${LOCK}`]: { is: "" },
    [`${call} > requests`]: { atMost: 5 },
  };
}

function refusedByAnnotation(what: RegExp): DeliberateDifference {
  return { reason: REFUSED_FIRST, expect: { "call 0 > error > msg": { matches: what }, ...REFUSED_BEFORE_THE_CLAIM, ...NO_HANDLE } };
}

const SPY: Expectations = {
  "* > files > {{run}}/spy/ADD/env": { matches: /^CNI_ARGS=\S+\n(CNI_\w+=\S*\n){5}$/ },
  "* > files > {{run}}/spy/DEL/env": { matches: /^CNI_ARGS=\S+\n(CNI_\w+=\S*\n){5}$/ },
};

/** By scenario, "suite/name". */
export const KUBERNETES_MAIN_DIFFERENCES: Readonly<Record<string, DeliberateDifference>> = {
  ...Object.fromEntries(
    AS_ON_THE_LOCAL_STORE.flatMap((name) => (MAIN_DIFFERENCES[name] === undefined ? [] : [[name, MAIN_DIFFERENCES[name]]])),
  ),
  "main/check-after-damage": {
    reason: "design §8: CHECK verifies, and so it reads the pod",
    expect: {
      "* > stdout": ABSENT,
      "* > exit": { is: 1 },
      "call 1 > error": PRESENT,
      "call 2 > error": PRESENT,
      "* > requests": { atMost: 2 },
    },
  },
  "main/cluster-missing": { reason: NOT_WITHOUT_CLUSTER, expect: linkGone("call 3") },
  "main/cluster-not-ready": { reason: NOT_WITHOUT_CLUSTER, expect: linkGone("call 3") },
  "main/cluster-ready-null": {
    reason: "design §8: an error instead of a panic",
    expect: {
      "* > error > msg": {
        matches: /^Calico is currently not ready to process requests: datastoreReady of ClusterInformation default is not set/,
      },
    },
  },
  "main/del-bad-allowedsourceprefixes": { reason: DEL_IN_SPITE_OF_ANNOTATIONS, expect: DEL_DONE },
  "main/del-bad-floatingips": { reason: DEL_IN_SPITE_OF_ANNOTATIONS, expect: DEL_DONE },
  "main/del-kubeconfig-down": { reason: NOT_WITHOUT_CLUSTER, expect: linkGone("call 1") },
  "main/del-kubeconfig-noroles": { reason: NOT_WITHOUT_CLUSTER, expect: linkGone("call 1") },
  "main/env-no-args": {
    reason: `${DEL_IN_SPITE_OF_ANNOTATIONS}: a container that is no pod holds nothing here, and what its handle holds is released`,
    expect: {
      "call 0 > error > msg": {
        matches: /^container cid1: CNI_ARGS lacks K8S_POD_NAME or K8S_POD_NAMESPACE, .*unable to determine Pod name$/,
      },
      "call 1 > exit": { is: 0 },
      "call 1 > error": ABSENT,
      "call 1 > stdout": { is: { text: "" } },
    },
  },
  "main/floating-bad-ip": refusedByAnnotation(/^floating IP "nonsense" is not an IP address/),
  "main/floating-bad-json": { reason: REFUSED_FIRST, expect: REFUSED_BEFORE_THE_CLAIM },
  "main/floating-family-absent": refusedByAnnotation(/^floating IP 2001:647f::21 needs an IPv6 address/),
  "main/floating-off": { reason: REFUSED_FIRST, expect: REFUSED_BEFORE_THE_CLAIM },
  "main/hostlink-renamed": {
    reason: "design §8: a failed repetition gives back only what it took itself, the running container keeps its address",
    expect: { ...FIRST_KEEPS_ITS_ADDRESS },
  },
  "main/hwaddr-empty": { reason: REFUSED_FIRST, expect: REFUSED_BEFORE_THE_CLAIM },
  "main/hwaddr-invalid": { reason: REFUSED_FIRST, expect: REFUSED_BEFORE_THE_CLAIM },
  "main/hwaddr-eui64": {
    reason: "lib/workload/mac.ts: the kernel drops two of eight octets without a word while Calico's result shows them",
    expect: {
      "call 0 > exit": { is: 1 },
      "call 0 > stdout": ABSENT,
      "call 0 > error": PRESENT,
      ...REFUSED_BEFORE_THE_CLAIM,
      ...NO_HANDLE,
      ...NO_ANNOTATIONS,
    },
  },
  "main/no-policy": { reason: REFUSED_FIRST, expect: { ...REFUSED_BEFORE_THE_CLAIM, ...NO_ANNOTATIONS } },
  "main/policy-timeout--1": {
    reason: "design §8: a negative wait is refused while reading the configuration",
    expect: { ...REFUSED_BEFORE_THE_CLAIM, ...NO_HANDLE, ...NO_ANNOTATIONS },
  },
  "main/noipam": {
    reason: ROUTES_FOR_ALL,
    expect: { "call 0 > kernel > host > routes4 > *": PRESENT, "call 0 > kernel > host > routes6 > *": PRESENT },
  },
  "main/noipam-outside-pools": { reason: ROUTES_FOR_ALL, expect: { "call 0 > kernel > host > routes4 > *": PRESENT } },
  "main/ipaddrs": { reason: ROUTES_FOR_ALL, expect: { "call 0 > kernel > host > routes4 > *": PRESENT } },
  "main/ipaddrs-dual": {
    reason: ROUTES_FOR_ALL,
    expect: { "call 0 > kernel > host > routes4 > *": PRESENT, "call 0 > kernel > host > routes6 > *": PRESENT },
  },
  "main/pod-other-node": {
    reason: "design §8: whose annotations they are is told by the container's id, not by the pod's node",
    expect: {
      "* > objects > pods > pod1 > cni.projectcalico.org/podIP": { is: "" },
      "* > objects > pods > pod1 > cni.projectcalico.org/podIPs": { is: "" },
    },
  },
  "main/ifname-upper": {
    reason: "notes on the recordings, 7: DEL of Eth0 blanks the pod's addresses",
    expect: {
      "call 1 > objects > pods > pod1 > cni.projectcalico.org/podIP": { is: "" },
      "call 1 > objects > pods > pod1 > cni.projectcalico.org/podIPs": { is: "" },
    },
  },
  "main/spoof-empty-entry": { reason: DEL_IN_SPITE_OF_ANNOTATIONS, expect: { ...delOfNothing("call 1"), ...delOfNothing("call 2") } },
  "main/spoof-no-mask": { reason: DEL_IN_SPITE_OF_ANNOTATIONS, expect: { ...delOfNothing("call 1"), ...delOfNothing("call 2") } },
  "main/spy-annotations": {
    reason: "the delegate learns of the datastore from its configuration, in which every digit is kept (design §8)",
    expect: { ...SPY, "* > files > {{run}}/spy/ADD/stdin > unknown > big": { is: "12345678901234567890" } },
  },
  "main/spy-hostlocal": {
    reason: "design §8: DEL of usePodCidr gives host-local a configuration that it accepts; the delegate learns of the datastore from it",
    expect: { ...SPY, "* > files > {{run}}/spy/DEL/stdin > ipam > ranges > 1": ABSENT },
  },
};
