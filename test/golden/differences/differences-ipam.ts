/** What differs on purpose in scenarios of the IPAM plugin, with the outcome we want. */
import { type DeliberateDifference, differs, type Expectations, endsAs, type Outcome } from "./expected-difference.ts";

const ABSENT: Outcome = { absent: true };
const LOCK = "/var/run/calico/ipam.lock";
const VERSION_1_1_0 = "design §8: 1.1.0 is spoken; the outcome is that of 1.0.0";
const BOTH_OR_NONE = "design §8 and invariant 6: both families or none, so the IPv4 address is given back; only its block stays claimed";
const REPAIRED = "design §8: handles that count what no block holds are repaired on the way, not left behind for ever";
const LEAVES_ANYWAY =
  "design §8: DEL never depends on what only ADD needs; the pod could never be deleted, since its instance does not come back";
const OWN_WORDS = "our help and version texts are our own; the exit status and the stream are Calico's";

/** A call that Calico refuses and that is done here: exit 0 with nothing to say. */
function succeedsSilently(call: string): Expectations {
  return { [`${call} > error`]: ABSENT, [`${call} > exit`]: { is: 0 }, [`${call} > stdout`]: { is: { text: "" } } };
}

/** What results of 0.4.0 have and those of 1.0.0 have not, as it stands in a recording. */
const VERSION_MEMBER = String.raw`            \"version\": \"6\",\n`;
const EMPTY_DNS = String.raw`,\n    \"dns\": {}`;

const HELP = String.raw`Usage of tortie-ipam:\n  -v\tDisplay version\n  -upgrade\tCheck that host-local holds no addresses\n$`;

/** No pool for IPv6: each ADD leaves the claimed block without addresses, the queue turned by what was taken and given back. */
const NO_V6_POOL: Expectations = {
  "call 0 > objects > blocks > 10.40.0.128/26 > allocations > 0": ABSENT,
  "call 0 > objects > blocks > 10.40.0.128/26 > attributes > 0": ABSENT,
  "call 0 > objects > blocks > 10.40.0.128/26 > sequenceNumberForAllocation > 0": ABSENT,
  "call 0 > objects > blocks > 10.40.0.128/26 > unallocated": { is: "1..63 0" },
  "call 0 > objects > blocks > 10.40.0.128/26 > sequenceNumber": { is: "T1+0" },
  "call 0 > objects > handles > net1.c1": ABSENT,
  "call 1 > objects > blocks > 10.40.0.128/26 > allocations > *": ABSENT,
  "call 1 > objects > blocks > 10.40.0.128/26 > attributes > *": ABSENT,
  "call 1 > objects > blocks > 10.40.0.128/26 > sequenceNumberForAllocation > *": ABSENT,
  "call 1 > objects > blocks > 10.40.0.128/26 > unallocated": { is: "2..63 0..1" },
  "call 1 > objects > handles > net1.c1": ABSENT,
  "call 2 > objects > blocks > 10.40.0.128/26 > sequenceNumber": { is: "T1+2" },
};

const NO_POOLS = differs("the local store looks for pools before it takes the lock, because the configuration may bring them", {
  [`* > files > ${LOCK}`]: ABSENT,
});

/** The file is there even when an entry names no pool. */
const POOLS_UNDER_THE_LOCK = differs("design, invariant 10: pools are read under the node's lock", {
  [`call 0 > files > ${LOCK}`]: { is: "100600" },
});

const NOT_THIS_PODS = "invariant 11: an address whose attributes name another pod is not released by a legacy handle (M1)";
const OLD_POD = { namespace: "shop", node: "node-a", pod: "old" };
const KEPT_LEGACY: Expectations = {
  "call 0 > objects > blocks > 10.40.0.0/26 > allocations > 0": { is: 0 },
  "call 0 > objects > blocks > 10.40.0.0/26 > allocations > 1": { is: 1 },
  "call 0 > objects > blocks > 10.40.0.0/26 > unallocated": { is: "2..63" },
  "call 0 > objects > blocks > 10.40.0.0/26 > attributes > 0 > handle_id": { is: "shop.web-0" },
  "call 0 > objects > blocks > 10.40.0.0/26 > attributes > 1": { is: { handle_id: "net1.z", secondary: OLD_POD } },
  "call 0 > objects > blocks > 10.40.0.0/26 > sequenceNumber": { is: "1000" },
  "call 0 > objects > blocks > 10.40.0.0/26 > sequenceNumberForAllocation > 0": { is: "999" },
  "call 0 > objects > handles > shop.web-0": { is: { "10.40.0.0/26": 1 } },
};

/** By scenario, "suite/name". */
export const IPAM_DIFFERENCES: Readonly<Record<string, DeliberateDifference>> = {
  "ipam-kdd/auto-dual-1.1.0": endsAs("ipam-kdd/auto-dual-1.0.0", VERSION_1_1_0, { "1.0.0": "1.1.0" }),
  "ipam-kdd/auto-v4-1.1.0": endsAs("ipam-kdd/auto-v4-1.0.0", VERSION_1_1_0, { "1.0.0": "1.1.0" }),
  "ipam-kdd/auto-v6-1.1.0": {
    reason: VERSION_1_1_0,
    // No recording has IPv6 alone in 1.0.0; the stored objects are those of any version, the result is 1.0.0's.
    instead: {
      of: "ipam-kdd/auto-v6-0.4.0",
      replace: { "0.4.0": "1.1.0", [VERSION_MEMBER]: "", [EMPTY_DNS]: "" },
    },
  },
  "ipam-kdd/conf-versions": differs(VERSION_1_1_0, { ...succeedsSilently("call 3"), [`call 3 > files > ${LOCK}`]: { is: "100600" } }),
  "ipam-kdd/legacy-handle": differs(NOT_THIS_PODS, KEPT_LEGACY),
  "ipam-etcd/legacy-handle": differs(NOT_THIS_PODS, {
    ...KEPT_LEGACY,
    "call 0 > objects > blocks > 10.40.0.0/26 > attributes > 1": {
      is: { handle_id: "net1.z", secondary: { node: "node-a", namespace: "shop", pod: "old" } },
    },
  }),
  "ipam-kdd/legacy-handle-cni": differs(NOT_THIS_PODS, {
    "call 0 > objects > blocks > 10.40.0.0/26 > allocations > 0": { is: 0 },
    "call 0 > objects > blocks > 10.40.0.0/26 > unallocated": { is: "2..63 1" },
    "call 0 > objects > blocks > 10.40.0.0/26 > attributes > 0": { is: { handle_id: "c1", secondary: OLD_POD } },
    "call 0 > objects > blocks > 10.40.0.0/26 > sequenceNumber": { is: "1001" },
    "call 0 > objects > blocks > 10.40.0.0/26 > sequenceNumberForAllocation > 0": { is: "999" },
    "call 0 > objects > handles > c1": { is: { "10.40.0.0/26": 1 } },
  }),
  "ipam-kdd/dual-no-v6-pool": differs(BOTH_OR_NONE, NO_V6_POOL),
  "ipam-etcd/dual-no-v6-pool": differs(BOTH_OR_NONE, NO_V6_POOL),
  "ipam-kdd/dual-cooldown-rollback": differs(
    "docs/project/decisions.md: an address that nobody has seen in use is given back without a cooldown",
    {
      "call 0 > objects > blocks > 10.40.0.128/26 > allocations > 0": ABSENT,
      "call 0 > objects > blocks > 10.40.0.128/26 > unallocated": { is: "1..63 0" },
      "call 0 > objects > blocks > 10.40.0.128/26 > attributes > 0": ABSENT,
      "call 0 > objects > blocks > 10.40.0.128/26 > sequenceNumber": { is: "T1+0" },
      "call 0 > objects > blocks > 10.40.0.128/26 > sequenceNumberForAllocation > 0": ABSENT,
    },
  ),
  "ipam-kdd/pools-entry-bad-cidr": POOLS_UNDER_THE_LOCK,
  "ipam-kdd/pools-wrong-family-name": POOLS_UNDER_THE_LOCK,
  "ipam-kdd/pools-wrong-family-off": POOLS_UNDER_THE_LOCK,
  "ipam-kdd/env-netns-own": differs(
    "design §8: one error with a stable code, and before anything is claimed; so the second container gets the first address",
    {
      "call 0 > stdout": ABSENT,
      "call 0 > error": {
        is: { code: 8, msg: "plugin's netns and netns from CNI_NETNS should not be the same", layout: "indented by 4" },
      },
      "call 0 > objects > **": ABSENT,
      [`call 0 > files > ${LOCK}`]: ABSENT,
      ...succeedsSilently("call 2"),
      "call 1 > stdout > value > ips > 0 > address": { is: "10.40.0.128/26" },
      "call 1 > stdout > value > routes > 0 > dst": { is: "10.40.0.128/26" },
      "call 1 > objects > blocks > 10.40.0.128/26 > allocations > 1": ABSENT,
      "call 1 > objects > blocks > 10.40.0.128/26 > unallocated": { is: "1..63" },
      "call 1 > objects > blocks > 10.40.0.128/26 > attributes > 0 > handle_id": { is: "net1.c2" },
      "call 1 > objects > blocks > 10.40.0.128/26 > attributes > 1": ABSENT,
      "call 1 > objects > blocks > 10.40.0.128/26 > sequenceNumber": { is: "T1+1" },
      "call 1 > objects > blocks > 10.40.0.128/26 > sequenceNumberForAllocation > 1": ABSENT,
      "call 1 > objects > handles > net1.c1": ABSENT,
      "call 2 > objects > blocks > 10.40.0.128/26 > allocations > 0": { is: 0 },
      "call 2 > objects > blocks > 10.40.0.128/26 > allocations > 1": ABSENT,
      "call 2 > objects > blocks > 10.40.0.128/26 > unallocated": { is: "1..63" },
      "call 2 > objects > blocks > 10.40.0.128/26 > sequenceNumber": { is: "T1+1" },
      "call 2 > objects > blocks > 10.40.0.128/26 > sequenceNumberForAllocation > 0": { is: "T1+0" },
      "call 2 > objects > blocks > 10.40.0.128/26 > sequenceNumberForAllocation > 1": ABSENT,
      "call 3 > objects > blocks > 10.40.0.128/26 > unallocated": { is: "1..63 0" },
      "call 3 > objects > blocks > 10.40.0.128/26 > sequenceNumber": { is: "T1+2" },
    },
  ),
  "ipam-kdd/family-none": differs("nothing is asked for, so nothing is locked", { [`call 0 > files > ${LOCK}`]: ABSENT }),
  "ipam-kdd/flags": differs(`${OWN_WORDS}; -upgrade checks and moves nothing (docs/how-to/use-host-local.md)`, {
    "call 0 > stdout > text": { matches: /^\d+\.\d+\.\d+\n$/ },
    "call 1 > stdout > text": { matches: /^\d+\.\d+\.\d+\n$/ },
    "call 2 > stderr": { matches: new RegExp(`^flag provided but not defined: -x\\n${HELP}`) },
    "call 3 > stderr": { matches: new RegExp(`^${HELP}`) },
    "call 5 > stderr": { matches: new RegExp(`^invalid boolean value "maybe" for -upgrade: parse error\\n${HELP}`) },
  }),
  "ipam-kdd/handle-count-high": differs(REPAIRED, {
    "call 0 > objects > handles > net1.c1": ABSENT,
    "call 1 > objects > handles > net1.c1": ABSENT,
  }),
  "ipam-kdd/handle-count-low": differs(REPAIRED, { "call 0 > objects > handles > net1.c1": ABSENT }),
  "ipam-kdd/handle-two-blocks-one-gone": differs(REPAIRED, { "call 0 > objects > handles > net1.c1": ABSENT }),
  "ipam-kdd/handle-zero-in-block": differs(
    `${REPAIRED}; the block is written once, so that a grant under way fails (ipam-plugin/allocator/release-by-handle.ts)`,
    { "call 0 > objects > handles > net1.c1": ABSENT, "call 0 > objects > blocks > 10.40.0.0/26 > sequenceNumber": { is: "1001" } },
  ),
  "ipam-etcd/handle-no-block": differs(REPAIRED, {
    "call 0 > objects > handles > net1.c1": ABSENT,
    "call 1 > objects > handles > net1.c1 > 10.40.0.0/26": ABSENT,
  }),
  "ipam-kdd/handle-underscore": endsAs(
    "ipam-etcd/handle-underscore",
    "design §8: names with '_' are legal; the local store has no rule against them",
  ),
  "ipam-kdd/nodename-file-newline": endsAs("ipam-kdd/nodename-file", "design §8: the newline of the nodename file is trimmed"),
  "ipam-kdd/pools-none": NO_POOLS,
  "ipam-etcd/pools-none": NO_POOLS,
  "ipam-kdd/sequence-max": endsAs(
    "ipam-etcd/sequence-max",
    "the next number after the largest of int64 is the clock's, so that no schema refuses it and no release fails for ever",
    { "9223372036854775808": "1793000000000000000", "9223372036854775809": "1793000000000000001" },
  ),
  "ipam-etcd/sequence-max": differs("the next number after the largest of int64 is the clock's (ipam-kdd/sequence-max)", {
    "call 1 > objects > blocks > 10.40.0.64/26 > sequenceNumber": { is: "T1+0" },
    "call 2 > objects > blocks > 10.40.0.64/26 > sequenceNumber": { is: "T1+1" },
    "call 2 > objects > blocks > 10.40.0.64/26 > sequenceNumberForAllocation > 2": { is: "T1+0" },
  }),
  "ipam-kdd/unallocated-double": differs(
    "design §8: an ordinal both allocated and listed as free is never handed out again; the next free one is",
    {
      "call 0 > stdout > value > ips > 0 > address": { is: "10.40.0.2/30" },
      "call 0 > stdout > value > routes > 0 > dst": { is: "10.40.0.2/30" },
      "call 0 > objects > blocks > 10.40.0.0/30 > allocations > 1": { is: 0 },
      "call 0 > objects > blocks > 10.40.0.0/30 > allocations > 2": { is: 1 },
      "call 0 > objects > blocks > 10.40.0.0/30 > unallocated": { is: "" },
      "call 0 > objects > blocks > 10.40.0.0/30 > sequenceNumberForAllocation > 1": { is: "999" },
      "call 0 > objects > blocks > 10.40.0.0/30 > sequenceNumberForAllocation > 2": { is: "1000" },
    },
  ),
  "ipam-kdd/vm-ip": differs(
    "golden notes, bug 5: another address asked for than the virtual machine keeps is an error, and its owner stays as it was",
    {
      "call 2 > exit": { is: 1 },
      "call 2 > stdout": ABSENT,
      "call 2 > error": {
        is: {
          code: 999,
          msg: "handle net1.vmi.shop.vm1 already has IP(s) allocated, cannot assign additional IP 10.40.0.10: the virtual machine keeps 10.40.0.9",
          layout: "indented by 4",
        },
      },
      "call 2 > objects > blocks > 10.40.0.0/26 > sequenceNumber": { is: "T1+2" },
      "call 3 > objects > blocks > 10.40.0.0/26 > sequenceNumber": { is: "T1+3" },
    },
  ),
  "ipam-kdd/vm-target-alone": differs(
    "golden notes, bug 6: a virtual machine that holds nothing has nothing to give back",
    succeedsSilently("call 1"),
  ),
  "ipam-kdd/vm-uid-mismatch": differs(LEAVES_ANYWAY, { ...succeedsSilently("call 1"), [`call 1 > files > ${LOCK}`]: { is: "100600" } }),
  "ipam-kdd/vm-vmi-missing": differs(LEAVES_ANYWAY, { ...succeedsSilently("call 1"), [`call 1 > files > ${LOCK}`]: { is: "100600" } }),
  "ipam-kdd/unknown-command": differs(OWN_WORDS, {
    "* > stderr": { matches: /^tortie-ipam \S+: .*\nCNI protocol versions supported: 0\.1\.0, .*, 1\.1\.0\n$/ },
  }),
};
