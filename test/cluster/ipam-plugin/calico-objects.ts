/** Objects as Calico's own components leave them in the API server (I§2.2 to I§2.6), written with plain requests. */
import { type CalicoGroup, type Fields, LEGACY, type TestCluster } from "../../support/kubernetes/test-cluster.ts";

/** Where the objects are written, and in which group. */
export interface Place {
  readonly cluster: TestCluster;
  readonly group: CalicoGroup;
}

/** Values of the label `hostname-hash`, SHA3-256 in base32 (I§2.3). */
const HASHES: Readonly<Record<string, string>> = {
  node1: "7DS2CCNJGGLTHBDQLLFO6SX24SY2YDDEG3W2VN556FA2W4DLLV5A",
  "node-a": "PY3TQE2E3XMTETLM2MJO3UITKPFB27YUJ4T4E5XGPEJON3SM4QAA",
  "worker-1": "CPU5J3TPSNHFA66J45DG4Z5C3PSJAZ36LD46JZLYEGZSTAWBUCUA",
};

/** 64 ordinals that are free, but for those named: ordinal → index into `attributes`. */
export function ordinals(taken: Readonly<Record<number, number>>, size = 64) {
  const all = Array.from({ length: size }, (_, ordinal) => ordinal);
  return {
    allocations: all.map((ordinal) => taken[ordinal] ?? null),
    unallocated: all.filter((ordinal) => taken[ordinal] === undefined),
  };
}

export async function putBlock({ cluster, group }: Place, cidr: string, spec: Fields): Promise<void> {
  await cluster.apply({
    apiVersion: group,
    kind: "IPAMBlock",
    metadata: { name: nameOf(cidr), ...calicoAnnotation(group) },
    spec: {
      cidr,
      ...ordinals({}),
      attributes: [],
      sequenceNumber: 1787405600123456006n,
      sequenceNumberForAllocation: {},
      deleted: false,
      strictAffinity: false,
      ...spec,
    },
  });
}

export interface AffinityFacts {
  readonly state?: string;
  readonly deleted?: boolean;
  /** false: as Calico wrote it before it had labels and types. */
  readonly isLabelled?: boolean;
}

export async function putAffinity(
  { cluster, group }: Place,
  host: string,
  cidr: string,
  { state = "confirmed", deleted = false, isLabelled = true }: AffinityFacts = {},
): Promise<void> {
  const labels = {
    "projectcalico.org/affinity-type": "host",
    "projectcalico.org/hostname-hash": HASHES[host] ?? "",
    "projectcalico.org/ip-version": cidr.includes(":") ? "6" : "4",
  };
  await cluster.apply({
    apiVersion: group,
    kind: "BlockAffinity",
    metadata: { name: `${host}-${nameOf(cidr)}`, ...(isLabelled ? { labels } : {}) },
    spec: {
      cidr,
      node: host,
      state,
      ...(isLabelled ? { type: "host" } : {}),
      // A text in the older group, a truth value in the newer one.
      deleted: group === LEGACY ? String(deleted) : deleted,
    },
  });
}

export async function putHandle(
  { cluster, group }: Place,
  id: string,
  block: Readonly<Record<string, number>>,
  deleted = false,
): Promise<void> {
  const metadata = { name: id.toLowerCase(), ...calicoAnnotation(group) };
  await cluster.apply({ apiVersion: group, kind: "IPAMHandle", metadata, spec: { handleID: id, block, deleted } });
}

/** Object name of a block (I§2.2). */
export function nameOf(cidr: string): string {
  return cidr.replaceAll(/[.:/]/g, "-");
}

/** A time as objects have it: RFC 3339, whole seconds. */
export function secondsAgo(seconds: number): string {
  return `${new Date(Date.now() - seconds * 1000).toISOString().slice(0, 19)}Z`;
}

/** In the older group Calico's writer keeps a copy of its own metadata in an annotation (I§2.1). */
function calicoAnnotation(group: CalicoGroup): { readonly annotations?: Readonly<Record<string, string>> } {
  return group === LEGACY ? { annotations: { "projectcalico.org/metadata": '{"creationTimestamp":null}' } } : {};
}
