/** What a recording leaves unsaid, and a player has to put in place: files and objects. */
import type { Suite } from "./recording.ts";
import type { StoredObject } from "./stored-object.ts";

export interface UnrecordedSetup {
  readonly files?: Readonly<Record<string, string>>;
  /** Put into the store with the objects of `before`. */
  readonly objects?: readonly StoredObject[];
  /** Put before the call of that number; the recording shows only that they are there after it. */
  readonly beforeCall?: Readonly<Record<number, readonly StoredObject[]>>;
}

const FOREIGN_ANNOTATION = { annotations: { "x.org/a": "1" } };

/** By scenario, "suite/name". */
export const UNRECORDED_SETUPS: Readonly<Record<string, UnrecordedSetup>> = {
  "ipam-kdd/nodename-file": { files: { "/var/lib/calico/nodename": "node-a" } },
  "ipam-kdd/nodename-file-newline": { files: { "/var/lib/calico/nodename": "node-a\n" } },
  "ipam-kdd/lock-impossible": { files: { "/var/lib/calico/f": "" } },
  "ipam-kdd/pools-not-allocatable": {
    objects: [pool("p4", "10.40.0.0/24", {}, { conditions: [{ type: "Allocatable", status: "False" }] })],
  },
  "ipam-kdd/affinity-no-labels-ip": { beforeCall: { 1: [affinity("10.40.0.192/26", "confirmed")] } },
  "ipam-kdd/foreign-fields": {
    beforeCall: {
      1: [
        {
          ...affinity("10.40.0.64/26", "pending", affinityLabels("PY3TQE2E3XMTETLM2MJO3UITKPFB27YUJ4T4E5XGPEJON3SM4QAA")),
          ...FOREIGN_ANNOTATION,
        },
        { ...blockOfHandle("10.40.0.64/26", "net1.c1"), ...FOREIGN_ANNOTATION, labels: { "x.org/l": "1" } },
        { ...stored("IPAMHandle", "net1.c1", { handleID: "net1.c1", block: { "10.40.0.64/26": 1 } }), ...FOREIGN_ANNOTATION },
      ],
    },
  },
  "ipam-etcd/nodename-file": { files: { "/var/lib/calico/nodename": "node-a" } },
};

export function unrecordedSetupOf(suite: Suite, name: string): UnrecordedSetup {
  return UNRECORDED_SETUPS[`${suite}/${name}`] ?? {};
}

function stored(kind: string, name: string, spec: StoredObject["spec"], labels: StoredObject["labels"] = {}): StoredObject {
  return { kind, name, labels, annotations: {}, deleting: false, spec, status: {} };
}

/** Of node-a. */
function affinity(cidr: string, state: string, labels: StoredObject["labels"] = {}): StoredObject {
  const name = `node-a-${cidr.replace(/[./]/g, "-")}`;
  return stored("BlockAffinity", name, { cidr, deleted: "false", node: "node-a", state, type: "host" }, labels);
}

function affinityLabels(hostnameHash: string): StoredObject["labels"] {
  return {
    "projectcalico.org/affinity-type": "host",
    "projectcalico.org/hostname-hash": hostnameHash,
    "projectcalico.org/ip-version": "4",
  };
}

/** A block of node-a whose first address belongs to the handle. */
function blockOfHandle(cidr: string, handle: string): StoredObject {
  const ordinals = Array.from({ length: 64 }, (_, ordinal) => ordinal);
  return stored("IPAMBlock", cidr.replace(/[./]/g, "-"), {
    cidr,
    affinity: "host:node-a",
    affinityClaimTime: "{{set:claimed 3600 s ago}}",
    allocations: ordinals.map((ordinal) => (ordinal === 0 ? 0 : null)),
    attributes: [{ handle_id: handle, secondary: { namespace: "shop", node: "node-a", pod: "old" } }],
    deleted: false,
    sequenceNumber: 1000,
    sequenceNumberForAllocation: { "0": 999 },
    strictAffinity: false,
    unallocated: ordinals.slice(1),
  });
}

/** A pool as the ipam recordings have them. */
function pool(name: string, cidr: string, spec: StoredObject["spec"] = {}, status: StoredObject["status"] = {}): StoredObject {
  const usual = { blockSize: 26, nodeSelector: "all()", allowedUses: ["Workload", "Tunnel"], assignmentMode: "Automatic" };
  return { ...stored("IPPool", name, { cidr, ...usual, ...spec }), status };
}
