/** What differs on purpose in scenarios of the main plugin, with the outcome we want. */
import { type DeliberateDifference, differs, type Expectations, endsAs } from "./expected-difference.ts";
import {
  ABSENT,
  attachmentStays,
  LEAVES_NOTHING,
  LOCK,
  noAttachment,
  nothingClaimed,
  PRESENT,
  sandboxSettings,
  succeedsSilently,
} from "./outcomes.ts";

const NETNS_FIRST = "design §8: the sandbox is looked at first, before a block is claimed or a lock is taken";
const LINK_FIRST =
  "invariant 3: the host end goes with the attachment, also when the sandbox cannot be entered (docs/project/decisions.md)";
const NEWER_SANDBOX = "design §8 and invariant 7: the DEL of one container leaves the link of another alone";
const RACE = "who of the two adds the route first is a matter of time; the other's has an MTU";
const OUR_ROUTE: Expectations = { "call 0 > kernel > host > routes4 > 10.60.0.0 dev calif3c3d6a083e > metrics": ABSENT };
const DATAPLANE_OF_ADD = "invariant 4: a DEL needs no dataplane by name, only ADD and STATUS judge it";
const VERBS = "design §8: CHECK verifies";

/** A call that Calico refuses after it has given the address back, and that is served here. */
function served(call: string, handle: string): Expectations {
  const block = `${call} > objects > blocks > 10.60.0.0/26`;
  return {
    [`${call} > exit`]: { is: 0 },
    [`${call} > error`]: ABSENT,
    [`${block} > allocations > 0`]: { is: 0 },
    [`${block} > unallocated`]: { is: "1..63" },
    [`${block} > attributes > 0`]: PRESENT,
    [`${block} > sequenceNumber`]: { is: "T1+1" },
    [`${block} > sequenceNumberForAllocation > 0`]: { is: "T1+0" },
    [`${call} > objects > handles > ${handle}`]: { is: { "10.60.0.0/26": 1 } },
  };
}

export const FIRST_KEEPS_ITS_ADDRESS: Expectations = {
  "call 1 > objects > blocks > 10.60.0.0/26 > unallocated": { is: "2..63 1" },
  "call 2 > objects > blocks > 10.60.0.0/26 > unallocated": { is: "3..63 1..2" },
  "call 3 > objects > blocks > 10.60.0.0/26 > unallocated": { is: "3..63 1..2" },
  "call 4 > objects > blocks > 10.60.0.0/26 > unallocated": { is: "3..63 1..2 0" },
  "call 4 > objects > blocks > 10.60.0.0/26 > sequenceNumber": { is: "T1+6" },
  ...Object.fromEntries(
    ["call 1", "call 2", "call 3"].flatMap((call) => [
      [`${call} > objects > blocks > 10.60.0.0/26 > allocations > 0`, { is: 0 }],
      [`${call} > objects > blocks > 10.60.0.0/26 > attributes > 0`, PRESENT],
      [`${call} > objects > blocks > 10.60.0.0/26 > sequenceNumberForAllocation > 0`, { is: "T1+0" }],
      [`${call} > objects > handles > net1.cid1`, { is: { "10.60.0.0/26": 1 } }],
    ]),
  ),
};

export const RENAMED_LINK_STAYS: Expectations = {
  "call 3 > kernel > host > links > sali0": PRESENT,
  "call 3 > kernel > host > sysctls > **": PRESENT,
  "call 3 > kernel > pod > **": PRESENT,
};

/** By scenario, "suite/name". */
export const MAIN_DIFFERENCES: Readonly<Record<string, DeliberateDifference>> = {
  "main/add-pod-default-route-exists": differs(LEAVES_NOTHING, {
    ...noAttachment("call 0"),
    ...sandboxSettings("ipv4/ip_forward", "ipv4/conf/x0/forwarding", "ipv4/conf/net1/forwarding"),
  }),
  "main/add-twice-new-id": differs(NEWER_SANDBOX, attachmentStays("call 2")),
  "main/cluster-not-ready": differs(
    "the local store is paused by a migration alone, and says so; the link goes all the same (docs/project/decisions.md)",
    {
      "* > error > msg": { is: "the local datastore is not ready to process requests: it is being migrated" },
      ...noAttachment("call 3"),
    },
  ),
  "main/del-foreign-id": differs(NEWER_SANDBOX, attachmentStays("call 1")),
  "main/check-after-damage": differs(`${VERBS}; the recorded prevResult names no address, so the first CHECK fails too`, {
    "* > stdout": ABSENT,
    "* > exit": { is: 1 },
    "call 1 > error": PRESENT,
    "call 2 > error": PRESENT,
  }),
  "main/add-pod-eth0-exists": differs("design §8: a DEL removes only what is proven its own", {
    "call 1 > kernel > pod > **": PRESENT,
    "call 2 > kernel > pod > **": PRESENT,
  }),
  "main/dataplane-bogus": differs(DATAPLANE_OF_ADD, {
    ...succeedsSilently("call 1"),
    ...succeedsSilently("call 2"),
    [`call 1 > files > ${LOCK}`]: { is: "" },
    [`call 2 > files > ${LOCK}`]: { is: "" },
  }),
  "main/dataplane-grpc": differs(
    `docs/explanation/limitations.md: no dataplane by gRPC, which ADD refuses before anything is claimed; ${DATAPLANE_OF_ADD}`,
    {
      "call 0 > error > msg": { is: 'dataplane_options.type "grpc" is not supported: Tortie makes the links itself' },
      ...nothingClaimed("call 0", "call 1", "call 2"),
      ...succeedsSilently("call 1"),
      ...succeedsSilently("call 2"),
    },
  ),
  "main/del-empty-netns": differs(LINK_FIRST, { ...noAttachment("call 1"), ...noAttachment("call 2") }),
  "main/del-missing-netns": differs(LINK_FIRST, noAttachment("call 1")),
  "main/del-netns-file": differs("design §8: a DEL never fails because of its namespace path", {
    ...noAttachment("call 1"),
    "call 1 > exit": { is: 0 },
    "call 1 > error": ABSENT,
    "call 1 > stdout": PRESENT,
    "call 1 > objects > handles > net1.cid1": ABSENT,
    "call 1 > objects > blocks > 10.60.0.0/26 > allocations > 0": ABSENT,
    "call 1 > objects > blocks > 10.60.0.0/26 > unallocated": { is: "1..63 0" },
    "call 1 > objects > blocks > 10.60.0.0/26 > attributes > 0": ABSENT,
    "call 1 > objects > blocks > 10.60.0.0/26 > sequenceNumber": { is: "T1+2" },
    "call 1 > objects > blocks > 10.60.0.0/26 > sequenceNumberForAllocation > 0": ABSENT,
  }),
  "main/delegate-exit-silent": differs("design §8: a stable code instead of 0", { "* > error > code": { is: 999 } }),
  "main/dual-host-addrgen-none": endsAs("main/dual-1.0.0", "design §8: hosts with another address generation mode work"),
  "main/dual-host-addrgen-random": endsAs("main/dual-1.0.0", "design §8: hosts with another address generation mode work"),
  "main/env-no-command": differs("our text about ourselves goes to standard error", { "* > stdout > text": { is: "" } }),
  "main/etcd-mesos-namespace": differs("docs/explanation/limitations.md: no label of Mesos moves the endpoint, so that DEL finds it", {
    "call 1 > objects > endpoints > cid1": ABSENT,
    "call 2 > objects > endpoints > cid1": ABSENT,
  }),
  "main/etcd-upper-ifname": differs("names of interfaces need not be names of Kubernetes objects on the local store (C§12.2)", {
    ...served("call 0", "net1.cid1"),
    "call 0 > stdout": PRESENT,
    "call 0 > objects > endpoints > cid1 Eth0": { is: { containerID: "cid1", ips: ["10.60.0.0/32"] } },
    "call 1 > objects > blocks > 10.60.0.0/26 > sequenceNumber": { is: "T1+2" },
  }),
  "main/hostlink-renamed": differs(
    "design §8: a failed repetition gives back only what it took itself, the running container keeps its address, and its link when the other goes",
    {
      ...FIRST_KEEPS_ITS_ADDRESS,
      ...RENAMED_LINK_STAYS,
    },
  ),
  "main/hostlocal-routes-not-objects": differs("design §8: an error instead of a panic", {
    "call 0 > error > msg": { is: "failed to parse host-local IPAM routes section; was expecting a dict, not: 10.0.0.0/8" },
  }),
  "main/id-legal-but-not-calico": endsAs(
    "main/version-1.0.0",
    "design §8: a legal container id is served; the local store has no rule against '_'",
    { cid1: "a_b.c" },
  ),
  "main/name-dots": endsAs("main/version-1.0.0", "design §8: a legal network name is served; the local store has no rule against '_'", {
    net1: "a.b_c-d",
  }),
  "main/ifname-upper": differs("the local store has an endpoint an interface, as etcd has, and DEL of Eth0 removes that of Eth0", {
    "call 0 > objects > endpoints > pod1": ABSENT,
    "call 0 > objects > endpoints > pod1 Eth0": { is: { containerID: "cid1", ips: ["10.60.0.0/32"] } },
    "call 1 > objects > endpoints > pod1": ABSENT,
  }),
  "main/mtu-1279": differs(LEAVES_NOTHING, {
    "call 0 > error > msg": { is: "mtu 1279 is too small for IPv6 on eth0, which needs at least 1280" },
    ...noAttachment("call 0"),
  }),
  "main/netns-file": differs(NETNS_FIRST, nothingClaimed("call 0", "call 1")),
  "main/netns-missing": differs(NETNS_FIRST, nothingClaimed("call 0", "call 1")),
  "main/netns-own": differs(`design §8: one error with a stable code; ${NETNS_FIRST}`, {
    "call 0 > error > code": { is: 8 },
    "call 0 > error > msg": { is: "plugin's netns and netns from CNI_NETNS should not be the same" },
    ...nothingClaimed("call 0", "call 1"),
    "call 0 > objects > handles > net1.cid1": ABSENT,
    // A DEL never fails because of its namespace path.
    "call 1 > error": ABSENT,
    "call 1 > exit": { is: 0 },
    "call 1 > stdout": PRESENT,
  }),
  "main/netns-own-override": differs("the sandbox is the host itself: its ip_forward 0 is written last and holds for every link", {
    "call 0 > kernel > host > sysctls > ipv4/conf/calif3c3d6a083e/forwarding": { is: "0" },
  }),
  "main/nodename-file-missing": endsAs("main/version-1.0.0", "issue 3: no nodename file is needed on the local store"),
  "main/nodename-newline": endsAs("main/version-1.0.0", "design §8: the newline of the nodename file is trimmed"),
  "main/prefix-long": differs("a prefix that leaves too few characters is refused while the names are made, before anything is claimed", {
    "call 0 > error > msg": { matches: /^FELIX_INTERFACEPREFIX: "longpref" / },
    ...nothingClaimed("call 0", "call 1", "call 2"),
  }),
  "main/route-same-dev-race": { reason: RACE, expect: {}, races: OUR_ROUTE },
  "main/route-same-dev-race-dual": {
    reason: `design §8: each route for itself; ${RACE}`,
    races: OUR_ROUTE,
    expect: { "call 0 > kernel > host > routes6 > fd60:: dev calif3c3d6a083e": PRESENT },
  },
  "main/route6-other-dev": differs(LEAVES_NOTHING, noAttachment("call 0")),
  "main/version-1.1.0": endsAs("main/version-1.0.0", "design §8: 1.1.0 is spoken; the outcome is that of 1.0.0", { "1.0.0": "1.1.0" }),
};
