/** What differs on purpose in scenarios of the IPAM plugin on a real API server, with the outcome we want. */
import type { DeliberateDifference, Expectations } from "./deliberate.ts";
import { IPAM_DIFFERENCES } from "./differences-ipam.ts";
import { ABSENT, PRESENT } from "./expectations.ts";

const LOCK = "/var/run/calico/ipam.lock";
const READ_WHEN_NEEDED = "docs/decisions.md: nodes and namespaces are read only when a pool asks for their labels";
const OWN_HANDLES_FIRST =
  "design §8: DEL never depends on what only ADD needs; the container's own handles are looked for whatever becomes of its virtual machine";
const GIVEN_UP_LATER = "ipam-plugin/del.ts: a block that is not for this node any more is its next ADD's or GC's to give up";

/** The scenarios whose difference is the local store's too, to the letter. */
const AS_ON_THE_LOCAL_STORE = [
  "ipam-kdd/auto-dual-1.1.0",
  "ipam-kdd/auto-v4-1.1.0",
  "ipam-kdd/auto-v6-1.1.0",
  "ipam-kdd/dual-no-v6-pool",
  "ipam-kdd/env-netns-own",
  "ipam-kdd/family-none",
  "ipam-kdd/flags",
  "ipam-kdd/handle-count-high",
  "ipam-kdd/handle-count-low",
  "ipam-kdd/handle-two-blocks-one-gone",
  "ipam-kdd/nodename-file-newline",
  "ipam-kdd/unallocated-double",
  "ipam-kdd/unknown-command",
  "ipam-kdd/vm-ip",
];

/** Those where we ask the server more than Calico does, because we do more: call → as many requests at most. */
const WITH_MORE_REQUESTS: Readonly<Record<string, Readonly<Record<number, number>>>> = {
  "ipam-kdd/conf-versions": { 3: 2 },
  "ipam-kdd/handle-zero-in-block": { 0: 6 },
  "ipam-kdd/vm-target-alone": { 1: 7 },
  "ipam-kdd/vm-uid-mismatch": { 1: 7 },
  "ipam-kdd/vm-vmi-missing": { 1: 7 },
};

function requests(atMost: Readonly<Record<number, number>>): Expectations {
  return Object.fromEntries(Object.entries(atMost).map(([call, limit]) => [`call ${call} > requests`, { atMost: limit }]));
}

/** A call that Calico refuses, and that is served here: exit 0 with a result. */
function served(call: string): Expectations {
  return { [`${call} > exit`]: { is: 0 }, [`${call} > error`]: ABSENT, [`${call} > stdout`]: PRESENT };
}

/** An affinity marked deleted is deleted on the way: the first ADD succeeds, and the second one takes another address. */
function markIsNoObstacle(
  block: string,
  first: Expectations,
  numbers: { readonly sequence: string; readonly granted: string },
): Expectations {
  return {
    ...served("call 0"),
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

const BLOCK = "10.40.0.0/30";
const MARK = "design §8: an affinity marked deleted is deleted on the way, and the ADD goes on";
const LABELS = "design §8: affinities without their labels are repaired";

/** By scenario, "suite/name". */
export const KUBERNETES_IPAM_DIFFERENCES: Readonly<Record<string, DeliberateDifference>> = {
  ...Object.fromEntries(AS_ON_THE_LOCAL_STORE.map((name) => [name, local(name)])),
  ...Object.fromEntries(Object.entries(WITH_MORE_REQUESTS).map(([name, limits]) => [name, withRequests(local(name), limits)])),
  "ipam-kdd/affinity-deleted-mark-claim": {
    reason: MARK,
    expect: {
      ...markIsNoObstacle(BLOCK, { [`call 0 > objects > blocks > ${BLOCK}`]: PRESENT }, { sequence: "T1+2", granted: "T1+1" }),
      ...requests({ 0: 13 }),
    },
  },
  "ipam-kdd/affinity-deleted-mark-claim-block": {
    reason: MARK,
    expect: {
      ...markIsNoObstacle(
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
      ...requests({ 0: 14 }),
    },
  },
  "ipam-kdd/affinity-no-labels-ip": {
    reason: "design §8: affinities without their labels are repaired, and a type that is not written means host (I§2.3)",
    expect: {
      "* > objects > affinities > node-a 10.40.0.64/26 > labels > projectcalico.org/affinity-type": { is: "host" },
      "* > objects > affinities > node-a 10.40.0.64/26 > wire > labels > projectcalico.org/affinity-type": { is: "host" },
      "* > objects > affinities > node-a 10.40.0.64/26 > wire > spec > type": { is: "host" },
    },
  },
  "ipam-kdd/affinity-no-labels-only": {
    reason: LABELS,
    expect: {
      [`call 0 > objects > affinities > node-a ${BLOCK} > labels > *`]: PRESENT,
      [`call 0 > objects > affinities > node-a ${BLOCK} > wire > labels > *`]: PRESENT,
    },
  },
  "ipam-kdd/api-forbidden": {
    reason: "docs/decisions.md: what an ADD reads is asked for together, and DEL tries every step (invariant 4)",
    expect: {
      "call 0 > error > msg": {
        matches: /^connection is unauthorized: ippools\.crd\.projectcalico\.org is forbidden: User "plugin" cannot list resource "ippools"/,
      },
      [`call 0 > files > ${LOCK}`]: { is: "100600" },
      ...requests({ 0: 3, 1: 2 }),
    },
  },
  "ipam-kdd/foreign-fields": {
    reason: "lib/datastore/kubernetes/kept-fields.ts: what others put on our objects stays, Calico drops it",
    expect: {
      "* > objects > affinities > * > labels > x.org/l": { is: "1" },
      "* > objects > affinities > * > wire > labels > x.org/l": { is: "1" },
      "* > objects > affinities > * > wire > annotations > x.org/a": { is: "1" },
      "* > objects > handles > * > wire > annotations > x.org/a": { is: "1" },
      "* > objects > blocks > * > wire > labels > x.org/l": { is: "1" },
      "* > objects > blocks > * > wire > annotations > x.org/a": { is: "1" },
    },
  },
  "ipam-kdd/handle-underscore": {
    reason: "design §8: a name that Kubernetes cannot store is refused at once, before anything is touched",
    expect: {
      "call 0 > error > msg": { matches: /^network name and container id '.*' cannot be stored: ".*" is no name that Kubernetes takes$/ },
      "* > objects > blocks > *": ABSENT,
      "* > objects > affinities > *": ABSENT,
      [`call 0 > files > ${LOCK}`]: ABSENT,
    },
  },
  "ipam-kdd/long-node-260": {
    reason: READ_WHEN_NEEDED,
    expect: {
      ...served("call 0"),
      "call 0 > objects > blocks > *": PRESENT,
      "call 0 > objects > affinities > *": PRESENT,
      "call 0 > objects > handles > *": PRESENT,
      ...requests({ 0: 10 }),
    },
  },
  "ipam-kdd/namespace-missing": {
    reason: READ_WHEN_NEEDED,
    expect: {
      ...served("call 0"),
      [`call 0 > files > ${LOCK}`]: { is: "100600" },
      "* > objects > blocks > *": PRESENT,
      "* > objects > affinities > *": PRESENT,
      "call 0 > objects > handles > *": PRESENT,
      ...requests({ 0: 10, 1: 6 }),
    },
  },
  "ipam-kdd/node-name-capital": {
    reason: "a name that no Node can have is refused before the lock is taken",
    expect: { [`call 0 > files > ${LOCK}`]: ABSENT },
  },
  "ipam-kdd/node-selector-changed": {
    reason: GIVEN_UP_LATER,
    expect: { "call 1 > objects > blocks > 10.40.0.64/26": PRESENT, "call 1 > objects > affinities > node-a 10.40.0.64/26": PRESENT },
  },
  "ipam-kdd/selector-gone-del": {
    reason: GIVEN_UP_LATER,
    expect: { "call 0 > objects > blocks > 10.40.0.0/26": PRESENT, "call 0 > objects > affinities > node-a 10.40.0.0/26": PRESENT },
  },
  "ipam-kdd/vm-persistence-off": { reason: OWN_HANDLES_FIRST, expect: requests({ 3: 7 }) },
  "ipam-kdd/vm-pod-gone": { reason: OWN_HANDLES_FIRST, expect: requests({ 1: 3 }) },
};

function local(name: string): DeliberateDifference {
  const listed = IPAM_DIFFERENCES[name];
  if (listed === undefined) throw new Error(`the local store has no list for ${name}`);
  return listed;
}

function withRequests(listed: DeliberateDifference, limits: Readonly<Record<number, number>>): DeliberateDifference {
  if (!("expect" in listed)) throw new Error("what ends as another scenario does has that one's requests");
  return { ...listed, expect: { ...listed.expect, ...requests(limits) } };
}
