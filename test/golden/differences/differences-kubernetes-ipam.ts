/** What differs on purpose in scenarios of the IPAM plugin on a real API server, with the outcome we want. */

import { words } from "../../support/words.ts";
import { IPAM_DIFFERENCES } from "./differences-ipam.ts";
import { type DeliberateDifference, differs, type Expectations, endsAs } from "./expected-difference.ts";
import { ABSENT, IMPOSSIBLE_NAME, PRESENT, requests } from "./outcomes.ts";
import { differenceOf, withExpectations } from "./shared-differences.ts";

const LOCK = "/var/run/calico/ipam.lock";
const UNASKED = "docs/project/decisions.md: nodes and namespaces are read only where a selector asks for their labels";
const FOUND_BY_NAME = "docs/project/decisions.md: DEL of a virtual machine's pod does what can be done";
const GIVEN_UP_LATER = "docs/project/decisions.md: DEL does not ask whether the node is still selected for a block that it leaves empty";
const MARK = "design §8: an affinity marked deleted is deleted on the way, and the ADD goes on";
const BEFORE_A_CLAIM = "docs/project/decisions.md: pools, reservations and the Node are looked at before a block is claimed";
const LABELS = "design §8: affinities without their labels are repaired";

/** The scenarios whose difference is the local store's too, to the letter. */
const AS_ON_THE_LOCAL_STORE = words`
  ipam-kdd/auto-dual-1.1.0 ipam-kdd/auto-v4-1.1.0 ipam-kdd/auto-v6-1.1.0 ipam-kdd/dual-cooldown-rollback
  ipam-kdd/dual-no-v6-pool ipam-kdd/family-none ipam-kdd/flags ipam-kdd/handle-count-high ipam-kdd/handle-count-low
  ipam-kdd/handle-two-blocks-one-gone ipam-kdd/nodename-file-newline ipam-kdd/pools-wrong-family-name
  ipam-kdd/sequence-max ipam-kdd/unallocated-double ipam-kdd/unknown-command ipam-kdd/vm-ip
`;

/** Those of them that need more requests than Calico, which refuses the call or leaves the damage: call → requests at most. */
const WITH_MORE_REQUESTS: Readonly<Record<string, Readonly<Record<number, number>>>> = {
  "ipam-kdd/conf-versions": { 3: 2 },
  // The first block is the second container's (docs/project/decisions.md: pools, reservations and the Node are looked at before a block is claimed).
  "ipam-kdd/env-netns-own": { 1: 17 },
  "ipam-kdd/handle-zero-in-block": { 0: 6 },
  // Nobody is refused because of an old list of pools: they are listed once more.
  "ipam-kdd/pools-entry-bad-cidr": { 0: 2 },
  "ipam-kdd/pools-wrong-family-off": { 0: 2 },
  "ipam-kdd/vm-target-alone": { 1: 6 },
  "ipam-kdd/vm-uid-mismatch": { 1: 6 },
  "ipam-kdd/vm-vmi-missing": { 1: 6 },
};

/** An affinity marked deleted is no obstacle: the first ADD succeeds, and the second one takes another address. */
function bothAddsSucceed(
  block: string,
  first: Expectations,
  numbers: { readonly sequence: string; readonly granted: string },
): Expectations {
  return {
    "call 0 > exit": { is: 0 },
    "call 0 > error": ABSENT,
    "call 0 > stdout": PRESENT,
    ...first,
    [`call 0 > objects > affinities > node-a ${block}`]: PRESENT,
    "call 0 > objects > handles > net1.c1": PRESENT,
    "call 1 > stdout > value > ips > 0 > address": { is: "10.40.0.1/30" },
    "call 1 > stdout > value > routes > 0 > dst": { is: "10.40.0.1/30" },
    [`call 1 > objects > blocks > ${block} > allocations > 1`]: { is: 1 },
    [`call 1 > objects > blocks > ${block} > unallocated`]: { is: "2..3" },
    [`call 1 > objects > blocks > ${block} > attributes > 1`]: PRESENT,
    [`call 1 > objects > blocks > ${block} > sequenceNumber`]: { is: numbers.sequence },
    [`call 1 > objects > blocks > ${block} > sequenceNumberForAllocation > 1`]: { is: numbers.granted },
    [`call 1 > objects > handles > net1.c1 > ${block}`]: { is: 2 },
  };
}

/** The labels by which node-a finds an affinity of IPv4 (I§2.3). */
function labelled(path: string): Expectations {
  return {
    [`${path} > projectcalico.org/affinity-type`]: { is: "host" },
    [`${path} > projectcalico.org/hostname-hash`]: { is: "PY3TQE2E3XMTETLM2MJO3UITKPFB27YUJ4T4E5XGPEJON3SM4QAA" },
    [`${path} > projectcalico.org/ip-version`]: { is: "4" },
  };
}

/** The block stays the node's, its one address is back at the end of the queue. */
function leftEmpty(call: string, cidr: string, name: string): Expectations {
  return {
    [`${call} > objects > affinities > node-a ${cidr}`]: PRESENT,
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
        wire: { name, labels: {}, annotations: {}, spec: { deleted: false, strictAffinity: false } },
      },
    },
  };
}

/** With how the object is stored. */
function handleStays(name: string): Expectations {
  const wire = { name, labels: {}, annotations: {}, spec: { deleted: false } };
  return { [`call 0 > objects > handles > ${name}`]: { is: { "10.40.0.0/26": 1, wire } } };
}

const BLOCK = "10.40.0.0/30";

/** The address is of the block that the node has, where Calico does not find it and claims 10.40.0.128/26. */
const OWN_BLOCK_SERVES: Expectations = {
  "call 0 > stdout > value > ips > 0 > address": { is: "10.40.0.64/26" },
  "call 0 > stdout > value > routes > 0 > dst": { is: "10.40.0.64/26" },
  "call 0 > objects > blocks > 10.40.0.128/26": ABSENT,
  "call 0 > objects > blocks > 10.40.0.64/26 > allocations > 0": { is: 0 },
  "call 0 > objects > blocks > 10.40.0.64/26 > unallocated": { is: "1..63" },
  "call 0 > objects > blocks > 10.40.0.64/26 > attributes > 0": PRESENT,
  "call 0 > objects > blocks > 10.40.0.64/26 > sequenceNumber": { is: "1001" },
  "call 0 > objects > blocks > 10.40.0.64/26 > sequenceNumberForAllocation > 0": { is: "1000" },
  "call 0 > objects > affinities > node-a 10.40.0.128/26": ABSENT,
  "call 0 > objects > handles > net1.c1 > 10.40.0.128/26": ABSENT,
  "call 0 > objects > handles > net1.c1 > 10.40.0.64/26": { is: 1 },
};

/** By scenario, "suite/name". */
export const KUBERNETES_IPAM_DIFFERENCES: Readonly<Record<string, DeliberateDifference>> = {
  ...Object.fromEntries(AS_ON_THE_LOCAL_STORE.map((name) => [name, differenceOf(IPAM_DIFFERENCES, name)])),
  ...Object.fromEntries(
    Object.entries(WITH_MORE_REQUESTS).map(([name, limits]) => [
      name,
      withExpectations(differenceOf(IPAM_DIFFERENCES, name), requests(limits)),
    ]),
  ),
  "ipam-kdd/affinity-deleted-mark-claim": differs(MARK, {
    ...bothAddsSucceed(BLOCK, { [`call 0 > objects > blocks > ${BLOCK}`]: PRESENT }, { sequence: "T1+2", granted: "T1+1" }),
    ...requests({ 0: 20 }),
  }),
  "ipam-kdd/affinity-deleted-mark-claim-block": differs(MARK, {
    ...bothAddsSucceed(
      BLOCK,
      {
        [`call 0 > objects > blocks > ${BLOCK} > allocations > 0`]: { is: 0 },
        [`call 0 > objects > blocks > ${BLOCK} > unallocated`]: { is: "1..3" },
        [`call 0 > objects > blocks > ${BLOCK} > attributes > 0`]: PRESENT,
        [`call 0 > objects > blocks > ${BLOCK} > sequenceNumber`]: { is: "1002" },
        [`call 0 > objects > blocks > ${BLOCK} > sequenceNumberForAllocation > 0`]: { is: "1001" },
      },
      { sequence: "1003", granted: "1002" },
    ),
    ...requests({ 0: 19 }),
  }),
  "ipam-kdd/affinity-no-labels": differs(`${LABELS}, before the node claims another block beside its own`, {
    ...OWN_BLOCK_SERVES,
    ...labelled("call 0 > objects > affinities > node-a 10.40.0.64/26 > labels"),
    ...labelled("call 0 > objects > affinities > node-a 10.40.0.64/26 > wire > labels"),
  }),
  "ipam-kdd/affinity-no-labels-ip": differs(
    "design §8: affinities without their labels are repaired, and a type that is not written means host (I§2.3)",
    {
      "* > objects > affinities > node-a 10.40.0.64/26 > labels > projectcalico.org/affinity-type": { is: "host" },
      "* > objects > affinities > node-a 10.40.0.64/26 > wire > labels > projectcalico.org/affinity-type": { is: "host" },
      "* > objects > affinities > node-a 10.40.0.64/26 > wire > spec > type": { is: "host" },
    },
  ),
  "ipam-kdd/affinity-no-labels-only": differs(LABELS, {
    ...labelled(`call 0 > objects > affinities > node-a ${BLOCK} > labels`),
    ...labelled(`call 0 > objects > affinities > node-a ${BLOCK} > wire > labels`),
    ...requests({ 0: 16 }),
  }),
  "ipam-kdd/api-forbidden": differs("the first list that is refused is another one; DEL tries every step (invariant 4)", {
    "call 0 > error > msg": {
      matches: /^connection is unauthorized: ippools\.crd\.projectcalico\.org is forbidden: User "plugin" cannot list resource "ippools"/,
    },
    [`call 0 > files > ${LOCK}`]: { is: "100600" },
    ...requests({ 1: 2 }),
  }),
  "ipam-kdd/foreign-fields": differs("docs/project/decisions.md: what others put on IPAM objects stays", {
    "* > objects > affinities > * > labels > x.org/l": { is: "1" },
    "* > objects > affinities > * > wire > labels > x.org/l": { is: "1" },
    "* > objects > affinities > * > wire > annotations > x.org/a": { is: "1" },
    "* > objects > handles > * > wire > annotations > x.org/a": { is: "1" },
    "* > objects > blocks > * > wire > labels > x.org/l": { is: "1" },
    "* > objects > blocks > * > wire > annotations > x.org/a": { is: "1" },
  }),
  "ipam-kdd/handle-underscore": differs("design §8: a name that Kubernetes cannot store is refused at once, before anything is touched", {
    "call 0 > error > msg": {
      is: "network name and container id 'net1, ab_1' cannot be stored: \"net1.ab_1\" is no name that Kubernetes takes",
    },
    "* > objects > blocks > *": ABSENT,
    "* > objects > affinities > *": ABSENT,
    [`call 0 > files > ${LOCK}`]: ABSENT,
  }),
  "ipam-kdd/legacy-handle": withExpectations(differenceOf(IPAM_DIFFERENCES, "ipam-kdd/legacy-handle"), handleStays("shop.web-0")),
  "ipam-kdd/legacy-handle-cni": withExpectations(differenceOf(IPAM_DIFFERENCES, "ipam-kdd/legacy-handle-cni"), handleStays("c1")),
  "ipam-kdd/long-node-260": differs(IMPOSSIBLE_NAME, { [`call 0 > files > ${LOCK}`]: ABSENT }),
  "ipam-kdd/namespace-missing": endsAs("ipam-kdd/k8s-pod", UNASKED, { shop: "nowhere", "web-0": "x" }),
  "ipam-kdd/node-name-capital": differs(IMPOSSIBLE_NAME, { [`call 0 > files > ${LOCK}`]: ABSENT }),
  "ipam-kdd/node-selector-changed": differs(GIVEN_UP_LATER, leftEmpty("call 1", "10.40.0.64/26", "10-40-0-64-26")),
  "ipam-kdd/selector-gone-del": differs(GIVEN_UP_LATER, leftEmpty("call 0", "10.40.0.0/26", "10-40-0-0-26")),
  "ipam-kdd/second-family-later": differs(BEFORE_A_CLAIM, requests({ 1: 20 })),
  "ipam-kdd/vm-pod-gone": differs(FOUND_BY_NAME, requests({ 1: 3 })),
};
