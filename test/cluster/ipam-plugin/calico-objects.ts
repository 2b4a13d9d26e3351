/** Objects as Calico's own components leave them in the API server (I§2.2 to I§2.6), written with plain requests. */
import { type CalicoGroup, type Fields, LEGACY } from "../../support/kubernetes/test-cluster.ts";

/** Where the objects are written, and in which group. */
export interface ObjectWriter {
  readonly group: CalicoGroup;
  put(kind: string, metadata: { readonly name: string }, spec: Fields): Promise<void>;
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

export async function putBlock(world: ObjectWriter, cidr: string, spec: Fields, marks: { readonly deleted?: boolean } = {}): Promise<void> {
  await world.put(
    "IPAMBlock",
    { name: nameOf(cidr), ...calicoAnnotation(world) },
    {
      cidr,
      ...ordinals({}),
      attributes: [],
      sequenceNumber: 1787405600123456006n,
      sequenceNumberForAllocation: {},
      deleted: marks.deleted ?? false,
      strictAffinity: false,
      ...spec,
    },
  );
}

export interface AffinityFacts {
  readonly state?: string;
  readonly deleted?: boolean;
  /** false: as Calico wrote it before it had labels and types. */
  readonly isLabelled?: boolean;
}

export async function putAffinity(
  world: ObjectWriter,
  host: string,
  cidr: string,
  { state = "confirmed", deleted = false, isLabelled = true }: AffinityFacts = {},
): Promise<void> {
  const labels = {
    "projectcalico.org/affinity-type": "host",
    "projectcalico.org/hostname-hash": HASHES[host] ?? "",
    "projectcalico.org/ip-version": cidr.includes(":") ? "6" : "4",
  };
  await world.put(
    "BlockAffinity",
    { name: `${host}-${nameOf(cidr)}`, ...(isLabelled ? { labels } : {}) },
    {
      cidr,
      node: host,
      state,
      ...(isLabelled ? { type: "host" } : {}),
      // A text in the older group, a truth value in the newer one.
      deleted: world.group === LEGACY ? String(deleted) : deleted,
    },
  );
}

export async function putHandle(world: ObjectWriter, id: string, block: Readonly<Record<string, number>>, deleted = false): Promise<void> {
  await world.put("IPAMHandle", { name: id.toLowerCase(), ...calicoAnnotation(world) }, { handleID: id, block, deleted });
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
function calicoAnnotation(world: ObjectWriter): { readonly annotations?: Readonly<Record<string, string>> } {
  return world.group === LEGACY ? { annotations: { "projectcalico.org/metadata": '{"creationTimestamp":null}' } } : {};
}
