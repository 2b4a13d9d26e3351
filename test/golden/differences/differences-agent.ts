/** What differs on purpose when the main plugin hands its calls to an agent, beyond what differs without one. */
import { FIRST_KEEPS_ITS_ADDRESS, RENAMED_LINK_STAYS } from "./differences-main.ts";
import { type DeliberateDifference, differs, type Expectations } from "./expected-difference.ts";
import { ABSENT, PRESENT } from "./outcomes.ts";

const REPEATED = "A§11.4: a repeated ADD is answered from the record, after a look at the link";
const BLOCK = "objects > blocks > 10.60.0.0/26";

/** The link and the addresses of the first ADD stay what they were. */
const FIRST_STAYS: Expectations = {
  "call 1 > stdout > value > interfaces > 1 > mac": PRESENT,
  "call 1 > stdout > value > ips > 0 > address": { is: "10.60.0.0/32" },
  "call 1 > stdout > value > ips > 1 > address": { is: "fd60::/128" },
  "call 1 > stdout > value > routes > 0 > dst": { is: "10.60.0.0/26" },
  "call 1 > stdout > value > routes > 1 > dst": { is: "fd60::/122" },
  "call 1 > objects > endpoints > pod1 > ips > 0": { is: "10.60.0.0/32" },
  "call 1 > objects > endpoints > pod1 > ips > 1": { is: "fd60::/128" },
  "call 1 > objects > handles > net1.cid1 > *": { is: 1 },
  "call 1 > objects > blocks > * > allocations > 1": ABSENT,
  "call 1 > objects > blocks > * > attributes > 1": ABSENT,
  "call 1 > objects > blocks > * > sequenceNumberForAllocation > 1": ABSENT,
  "* > objects > blocks > * > unallocated": { matches: /^1\.\.63( 0)?$/ },
  "* > objects > blocks > * > sequenceNumber": { matches: /^T1\+[12]$/ },
  "call 1 > kernel > host > routes4 > 10.60.0.1 dev calif3c3d6a083e": ABSENT,
  "call 1 > kernel > host > routes4 > 10.60.0.0 dev calif3c3d6a083e": PRESENT,
  "call 1 > kernel > host > routes6 > fd60::1 dev calif3c3d6a083e": ABSENT,
  "call 1 > kernel > host > routes6 > fd60:: dev calif3c3d6a083e": PRESENT,
  "call 1 > kernel > pod > links > eth0 > address": PRESENT,
  "call 1 > kernel > pod > addresses > eth0 10.60.0.1/32": ABSENT,
  "call 1 > kernel > pod > addresses > eth0 10.60.0.0/32": PRESENT,
  "call 1 > kernel > pod > addresses > eth0 fd60::1/128": ABSENT,
  "call 1 > kernel > pod > addresses > eth0 fd60::/128": PRESENT,
  "call 1 > kernel > pod > addresses > eth0 {{link-local of call 1 pod addresses eth0}}/64": ABSENT,
  "call 1 > kernel > pod > addresses > eth0 {{link-local of call 0 pod addresses eth0}}/64": PRESENT,
  "call 1 > kernel > pod > routes6 > fd60::1 dev eth0": ABSENT,
  "call 1 > kernel > pod > routes6 > fd60:: dev eth0": PRESENT,
};

/** By scenario, "suite/name". */
export const AGENT_DIFFERENCES: Readonly<Record<string, DeliberateDifference>> = {
  "main/add-twice-same-id": differs(REPEATED, FIRST_STAYS),
  "main/etcd-ipam": differs(`${REPEATED}; with the routes of its first one`, {
    "call 1 > stdout > value > routes": { is: [{ dst: "10.60.0.0/26" }, { dst: "fd60::/122" }] },
  }),
  "main/hostlink-renamed": differs("a repeated ADD takes no further address, so a failing one has none to give back", {
    ...FIRST_KEEPS_ITS_ADDRESS,
    ...RENAMED_LINK_STAYS,
    [`call 1 > ${BLOCK} > unallocated`]: { is: "1..63" },
    [`call 1 > ${BLOCK} > sequenceNumber`]: { is: "T1+1" },
    [`call 2 > ${BLOCK} > unallocated`]: { is: "2..63 1" },
    [`call 2 > ${BLOCK} > sequenceNumber`]: { is: "T1+3" },
    [`call 3 > ${BLOCK} > unallocated`]: { is: "2..63 1" },
    [`call 3 > ${BLOCK} > sequenceNumber`]: { is: "T1+3" },
    [`call 4 > ${BLOCK} > unallocated`]: { is: "2..63 1 0" },
    [`call 4 > ${BLOCK} > sequenceNumber`]: { is: "T1+4" },
  }),
};
