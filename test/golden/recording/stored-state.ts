/**
 * What a store holds after a call, in the shape in which two stores are compared: blocks, affinities and handles by what they
 * are about and not by the name of the object, ordinals as ranges, endpoints by pod.
 */

import { words } from "../../support/words.ts";
import { isList, isRecord, type Json, type JsonRecord, listOf, recordOf, textOf, textsOf, without } from "../compare/json.ts";

/** On Kubernetes each block, affinity and handle has a `wire` besides: its name, labels, annotations and the rest of its spec. */
export interface StoredState {
  /** Block CIDR → block. */
  readonly blocks: JsonRecord;
  /** "<node> <CIDR>" → state and labels. */
  readonly affinities: JsonRecord;
  /** Handle ID → block CIDR → count. */
  readonly handles: JsonRecord;
  /** Pod or container → containerID and addresses; an endpoint other than eth0 has its name behind a blank. */
  readonly endpoints: JsonRecord;
  /** Pod → its annotations. Empty where the store has no pods. */
  readonly pods: JsonRecord;
  /** Network → its profile, whole; only where the store is etcd. */
  readonly profiles?: JsonRecord;
}

/** `objects` of main, Kubernetes store. */
export function stateFromMain(objects: JsonRecord): StoredState {
  const objectsOf = (plural: string, read: (entry: Json) => JsonRecord) =>
    Object.fromEntries(Object.entries(recordOf(objects[plural])).map(([name, entry]) => [`${plural}/${name}`, read(entry)]));
  const calico = stateFromPlurals({
    ...objectsOf("ipamblocks", (spec) => ({ spec })),
    ...objectsOf("ipamhandles", (spec) => ({ spec })),
    ...objectsOf("blockaffinities", recordOf),
  });
  return {
    ...withoutWire(calico, "annotations"),
    endpoints: byName(Object.entries(recordOf(objects.pods)).flatMap(([pod, annotations]) => endpointOfPod(pod, textsOf(annotations)))),
    pods: recordOf(objects.pods),
  };
}

/** `objects` of ipam-kdd: "plural/name" → labels, annotations, spec. */
export function stateFromPlurals(objects: JsonRecord): StoredState {
  const entriesOf = (plural: string, read: (object: JsonRecord) => [string, JsonRecord]) =>
    byName(
      Object.entries(objects).flatMap(([key, json]) => {
        if (!key.startsWith(`${plural}/`)) return [];
        const [title, entry] = read(recordOf(json));
        return [[title, { ...entry, wire: wireOf(plural, key.slice(plural.length + 1), recordOf(json)) }]];
      }),
    );
  return {
    blocks: entriesOf("ipamblocks", ({ spec }) => [textOf(recordOf(spec).cidr), compactBlock(recordOf(spec))]),
    affinities: entriesOf("blockaffinities", affinityEntry),
    handles: entriesOf("ipamhandles", ({ spec }) => handleEntry(recordOf(spec))),
    endpoints: {},
    pods: {},
  };
}

/** A state with less of what only an API server has: these members of every `wire`, or all of it. */
export function withoutWire<State extends Omit<StoredState, "endpoints" | "pods">>(state: State, ...members: readonly string[]): State {
  const stripped = (entries: JsonRecord) =>
    Object.fromEntries(
      Object.entries(entries).map(([key, json]) => {
        const { wire, ...entry } = recordOf(json);
        const kept = members.length === 0 || wire === undefined ? {} : { wire: without(recordOf(wire), ...members) };
        return [key, { ...entry, ...kept }];
      }),
    );
  return { ...state, blocks: stripped(state.blocks), affinities: stripped(state.affinities), handles: stripped(state.handles) };
}

/** Keys and values of etcd (I§2.9). */
export function stateFromEtcd(values: JsonRecord): StoredState {
  const state: Record<"blocks" | "affinities" | "handles" | "endpoints" | "profiles", [string, Json][]> = {
    blocks: [],
    affinities: [],
    handles: [],
    endpoints: [],
    profiles: [],
  };
  for (const [key, json] of Object.entries(values)) {
    const value = recordOf(json);
    const path = key.split("/");
    const cidr = (path[path.length - 1] ?? "").replace(/-(\d+)$/, "/$1");
    if (key.startsWith("/calico/ipam/v2/assignment/")) state.blocks.push([cidr, compactBlock(value)]);
    else if (key.startsWith("/calico/ipam/v2/handle/"))
      state.handles.push([key.slice("/calico/ipam/v2/handle/".length), value.block ?? {}]);
    else if (key.startsWith("/calico/ipam/v2/host/")) state.affinities.push([`${path[5]} ${cidr}`, { state: value.state ?? "" }]);
    else if (key.includes("/workloadendpoints/")) {
      const [owner, entry] = endpointEntry(recordOf(value.spec));
      state.endpoints.push([owner, { ...recordOf(entry), wire: { key, value } }]);
    } else if (key.includes("/profiles/")) state.profiles.push([path[path.length - 1] ?? "", value]);
  }
  return {
    blocks: byName(state.blocks),
    affinities: byName(state.affinities),
    handles: byName(state.handles),
    endpoints: byName(state.endpoints),
    pods: {},
    // Other stores have none, and are compared with recordings of this one as well.
    ...(state.profiles.length === 0 ? {} : { profiles: byName(state.profiles) }),
  };
}

/** One endpoint by its fields (C§7.1). */
export function endpointEntry(spec: JsonRecord): [string, Json] {
  const endpoint = textOf(spec.endpoint);
  const owner = textOf(spec.pod) || textOf(spec.containerID);
  return [endpoint === "eth0" ? owner : `${owner} ${endpoint}`, { containerID: spec.containerID ?? "", ips: spec.ipNetworks ?? [] }];
}

/** A block's spec (I§2.4) with allocations as "ordinal → attribute index" and free ordinals as ranges. */
export function compactBlock(spec: JsonRecord): JsonRecord {
  const allocations = spec.allocations;
  const claimed = spec.affinityClaimTime ?? spec.affinity_claim_time;
  return {
    affinity: spec.affinity ?? "",
    ...(claimed === undefined || claimed === null ? {} : { claimed }),
    size: isRecord(allocations) ? (allocations.size ?? 0) : listOf(allocations).length,
    allocations: isList(allocations)
      ? Object.fromEntries(allocations.flatMap((index, ordinal) => (index === null ? [] : [[String(ordinal), index]])))
      : without(recordOf(allocations), "size"),
    unallocated: isList(spec.unallocated) ? ranges(spec.unallocated.map(Number)) : textOf(spec.unallocated),
    attributes: listOf(spec.attributes),
    sequenceNumber: spec.sequenceNumber ?? 0,
    sequenceNumberForAllocation: recordOf(spec.sequenceNumberForAllocation),
    ...(isMarkedDeleted(spec) ? { deleted: true } : {}),
  };
}

/** Whether an object carries the mark of a soft delete (I§2.10). */
export function isMarkedDeleted(spec: JsonRecord): boolean {
  return spec.deleted === true || spec.deleted === "true";
}

/** "1..63 0": ordinals in order, runs of successors as ranges. */
function ranges(ordinals: readonly number[]): string {
  const runs: [number, number][] = [];
  for (const ordinal of ordinals) {
    const last = runs[runs.length - 1];
    if (last !== undefined && ordinal === last[1] + 1) last[1] = ordinal;
    else runs.push([ordinal, ordinal]);
  }
  return runs.map(([from, to]) => (from === to ? String(from) : `${from}..${to}`)).join(" ");
}

/** Members of `spec` that the entries have anyway, by plural. */
const COMPARED_APART: Readonly<Record<string, readonly string[]>> = {
  ipamblocks: words`cidr affinity affinityClaimTime allocations attributes sequenceNumber sequenceNumberForAllocation unallocated`,
  blockaffinities: ["node", "cidr", "state"],
  ipamhandles: ["handleID", "block"],
};

function wireOf(plural: string, name: string, { labels, annotations, spec }: JsonRecord): JsonRecord {
  const rest = without(recordOf(spec), ...(COMPARED_APART[plural] ?? []));
  return { name, labels: textsOf(labels), annotations: textsOf(annotations), spec: rest };
}

function affinityEntry({ spec, labels }: JsonRecord): [string, JsonRecord] {
  const { node, cidr, state, ...rest } = recordOf(spec);
  return [
    `${textOf(node)} ${textOf(cidr)}`,
    {
      state: state ?? "",
      ...(textOf(rest.type) === "virtual" ? { type: "virtual" } : {}),
      labels: textsOf(labels),
      ...(isMarkedDeleted(rest) ? { deleted: true } : {}),
    },
  ];
}

function handleEntry(spec: JsonRecord): [string, JsonRecord] {
  const id = textOf(spec.handleID);
  return [id, isMarkedDeleted(spec) ? { ...recordOf(spec.block), deleted: true } : recordOf(spec.block)];
}

/** The part of a pod's annotations that says what is attached (C§3.1); blanked ones mean that nothing is. */
function endpointOfPod(pod: string, annotations: Readonly<Record<string, string>>): [string, Json][] {
  const ips = annotations["cni.projectcalico.org/podIPs"] ?? "";
  if (ips === "") return [];
  return [[pod, { containerID: annotations["cni.projectcalico.org/containerID"] ?? "", ips: ips.split(",") }]];
}

function byName(entries: readonly [string, Json][]): JsonRecord {
  return Object.fromEntries([...entries].sort(([a], [b]) => (a < b ? -1 : 1)));
}
