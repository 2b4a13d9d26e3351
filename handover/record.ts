/**
 * Describes what the agent knows of one attachment and must still know after it was killed: `<state>/<id>/endpoint.json` (A§5.7). A plugin
 * that serves its calls itself writes the same, without an id (A§11.6).
 *
 * The record is the journal of ADD and DEL (A§11.4): its phase is written before the effect that it names, so that a restart finds
 * whatever a killed agent may have left. Its members stand in one table, which is the type as well as the reader of the stored text.
 */
import { decodeDesiredState, encodeDesiredState } from "../dataplane/desired-state.ts";
import { field, isNumber, may, must, oneOf } from "../lib/json/decode.ts";
import { parseJson } from "../lib/json/parse.ts";
import { flag, number, part, readShape, type Shaped, shape, shapes, text } from "../lib/json/shape.ts";
import { isJsonObject, type JsonObject, type JsonValue, stringifyJson } from "../lib/json/value.ts";

/** Written by this version. A record with another number is not understood, and kept aside (A§7.3 step 3). */
const FORMAT = 1;

/** In the endpoint's directory. */
export const RECORD_FILE = "endpoint.json";

/** In the place of an endpoint's number, which only the agent gives. */
export const NO_ID = 0;

/**
 * `creating`: nothing but the record is there. `adding:<step>`: that step and those before it may have had effects. `ready`: committed.
 * `deleting:<step>`: removal has begun, and goes on until nothing is left. The steps stand in their order (A§11.4, A§5.10).
 */
const PHASES = [
  "creating",
  ...(["adding:addresses", "adding:dataplane", "adding:build", "adding:endpoint"] as const),
  "ready",
  ...(["deleting:begun", "deleting:link", "deleting:datapath", "deleting:endpoint"] as const),
  ...(["deleting:addresses", "deleting:identity", "deleting:object"] as const),
] as const;

/** What proves the sandbox later: a path alone may be used again by another one, and so may the inode of one that is gone. */
const NETNS = {
  path: text,
  dev: may(text),
  ino: may(text),
  cookie: may(text),
  /** The agent itself has seen the sandbox at this path: only then does a path that leads nowhere mean that the sandbox is gone. */
  isVisible: may(flag),
};

/**
 * What proves that the address is this attachment's (A§0.1): a file of the host scope with its token, or a block's handle with the
 * sequence number of the block at that time. `external`: another plugin gave it, and the agent never releases it.
 */
const ADDRESS = {
  /** Without prefix length, canonical. */
  address: text,
  family: must((value): value is 4 | 6 => value === 4 || value === 6),
  grant: must(oneOf("file", "block", "external")),
  token: may(text),
  handle: may(text),
  /** As text: it is near 1.8e18. */
  sequence: may(text),
  /** The pod itself named it (annotation `ipAddrsNoIpam`): nobody grants it, so nobody can be asked for it. */
  isUngranted: may(flag),
};

/** Tells a repeated ADD from a different one. */
const REQUEST = {
  /** Of everything that decides the result. */
  digest: text,
  cniVersion: text,
  /** Of the network configuration's text. */
  configDigest: text,
  /** The call (call-body.ts), of which an undo, a GC and a retried DEL make theirs. */
  call: may(text),
};

/** The endpoint's copy in the cluster (A§6.3). */
const OBJECT = { uid: text, resourceVersion: may(text) };

/** A page about identities gives it meaning; here it is only carried. What the file holds is JSON already. */
const carried = must((value): value is JsonValue => value !== undefined);

const RECORD = {
  id: number,
  phase: must(oneOf(...PHASES)),
  attachment: shape({ network: text, containerId: text, ifname: text }),
  /** `<namespace>/<pod>`; absent for a plain container. */
  pod: may(text),
  podUID: may(text),
  /** The UID by which the runtime knows the pod, where it says so: of a static pod another one than its mirror's. */
  runtimePodUID: may(text),
  netns: shape(NETNS),
  bootId: text,

  /** `index` is known when the link has been made. */
  hostInterface: may(shape({ name: text, index: may(number), alias: text })),
  podInterface: text,
  podMac: may(text),
  hostMac: may(text),
  /** `routed` is C§4, `endpoint` A§3.3-3.6, `attached` an interface that another plugin made (A§3.8). */
  linkForm: must(oneOf("routed", "endpoint", "attached")),
  linkKind: may(must(oneOf("veth", "netkit"))),

  addresses: shapes(ADDRESS),
  /** Absent until the plan is complete, and for an attached interface. */
  desired: may(part(decodeDesiredState)),

  request: may(shape(REQUEST)),
  /** The printed CNI result, byte for byte. */
  result: may(text),

  labels: may(carried),
  identity: may(carried),
  object: may(shape(OBJECT)),
  traceparent: may(text),
  /** RFC 3339. */
  createdAt: text,
  updatedAt: text,
  committedAt: may(text),
  /** The same on the clock that nobody sets (lib/system/libc.ts). */
  committedBootMs: may(number),

  /** While an ADD is repeated: the committed record as text, which counts again when that ADD is cut off. */
  previous: may(text),
  /** The agent found the attachment at its start, with the runtime's arguments of its ADD or without them. */
  takenOver: may(must(oneOf("with-arguments", "without-arguments"))),
};

export type EndpointRecord = Shaped<typeof RECORD> & {
  /** Members of the file that this version does not know: they are written back as they came. */
  readonly others?: JsonObject;
};
export type RecordedNamespace = Shaped<typeof NETNS>;
export type RecordedAddress = Shaped<typeof ADDRESS>;
export type RecordedObject = Shaped<typeof OBJECT>;

const KNOWN: ReadonlySet<string> = new Set(["format", ...Object.keys(RECORD)]);

export function encodeRecord({ desired, others, ...rest }: EndpointRecord): string {
  // `sandbox` is for an older agent, which takes a record without it for damaged.
  const state = desired && { sandbox: rest.netns.path, ...encodeDesiredState(desired) };
  return `${stringifyJson({ format: FORMAT, ...rest, desired: state, ...others })}\n`;
}

/** @throws Error naming what is wrong: no JSON, cut, another format, a member of the wrong type */
export function decodeRecord(stored: string): EndpointRecord {
  const object = parseJson(stored);
  if (!isJsonObject(object)) throw new Error("not an object");
  const format = field(object, "format", isNumber);
  if (format !== FORMAT) throw new Error(`format ${format} is not known here, only ${FORMAT}`);
  const unknown = Object.entries(object).filter(([name]) => !KNOWN.has(name));
  return { ...readShape(RECORD, object), ...(unknown.length === 0 ? {} : { others: Object.fromEntries(unknown) }) };
}

/**
 * Decodes the record as it counts after a restart: an ADD that was repeated over a committed attachment and cut off has changed nothing of
 * it that a build does not mend, and its container may be running.
 * @throws Error as `decodeRecord`
 */
export function decodeSettled(stored: string): EndpointRecord {
  const record = decodeRecord(stored);
  if (record.previous === undefined || !isUnfinishedAdd(record)) return record;
  return { ...decodeRecord(record.previous), id: record.id };
}

export function isCommitted({ phase }: Pick<EndpointRecord, "phase">): boolean {
  return phase === "ready";
}

/** Says whether an ADD was under way: what it did is taken back, not kept. */
export function isUnfinishedAdd({ phase }: Pick<EndpointRecord, "phase">): boolean {
  return phase === "creating" || phase.startsWith("adding:");
}

export function isDeleting({ phase }: Pick<EndpointRecord, "phase">): boolean {
  return phase.startsWith("deleting:");
}

/**
 * Recognises a static pod, which is the kubelet's own: its mirror at the API server may go, or be replaced with another UID, while the
 * containers run on.
 */
export function isOfStaticPod({ podUID, runtimePodUID }: Pick<EndpointRecord, "podUID" | "runtimePodUID">): boolean {
  return podUID !== undefined && runtimePodUID !== undefined && runtimePodUID !== podUID;
}

/** What is known of an attachment when its ADD begins, or when it is registered. */
export type NewEndpoint = Pick<EndpointRecord, "attachment" | "netns" | "podInterface" | "linkForm"> &
  Partial<Pick<EndpointRecord, "pod" | "podUID" | "request" | "traceparent" | "addresses">>;
