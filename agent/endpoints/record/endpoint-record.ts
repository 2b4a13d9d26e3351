/**
 * What the agent knows of one attachment and must still know after it was killed: `<state>/<id>/endpoint.json` (A§5.7).
 *
 * The record is the journal of ADD and DEL (A§11.4): its phase is written before the effect that it names, so that a restart finds
 * whatever a killed agent may have left.
 */
import type { DesiredState } from "../../../dataplane/desired-state.ts";
import type { JsonObject, JsonValue } from "../../../lib/json/value.ts";
import type { SeenSandbox } from "../../../lib/system/sandbox.ts";

/** Written by this version. A record with another number is not understood, and kept aside (A§7.3 step 3). */
export const RECORD_FORMAT = 1;

/** What CNI adds and deletes. Two attachments are the same when all three are. */
export interface Attachment {
  readonly network: string;
  readonly containerId: string;
  readonly ifname: string;
}

/**
 * `creating`: nothing but the record is there. `adding:<step>`: that step and those before it may have had effects. `ready`: committed.
 * `deleting:<step>`: removal has begun, and goes on until nothing is left.
 */
export type Phase = "creating" | "ready" | `adding:${AddStep}` | `deleting:${DeleteStep}`;

/** Steps of an ADD in their order (A§11.4). */
export const ADD_STEPS = ["addresses", "dataplane", "build", "endpoint"] as const;
type AddStep = (typeof ADD_STEPS)[number];

/** Steps of a removal in their order (A§5.10). */
export const DELETE_STEPS = ["begun", "link", "datapath", "endpoint", "addresses", "identity", "object"] as const;
type DeleteStep = (typeof DELETE_STEPS)[number];

/** What proves the sandbox later: a path alone may be used again by another one, and so may the inode of one that is gone. */
export interface RecordedNamespace extends SeenSandbox {
  /** The agent itself has seen the sandbox at this path: only then does a path that leads nowhere mean that the sandbox is gone. */
  readonly isVisible?: boolean;
}

/** How the link looks: `routed` is C§4, `endpoint` A§3.3-3.6, `attached` an interface that another plugin made (A§3.8). */
type LinkForm = "routed" | "endpoint" | "attached";

export interface RecordedHostInterface {
  readonly name: string;
  /** Known when the link has been made. */
  readonly index?: number;
  readonly alias: string;
}

/**
 * What proves that the address is this attachment's (A§0.1): a file of the host scope with its token, or a block's handle with the
 * sequence number of the block at that time. `external`: another plugin gave it, and the agent never releases it.
 */
export interface RecordedAddress {
  /** Without prefix length, canonical. */
  readonly address: string;
  readonly family: 4 | 6;
  readonly grant: "file" | "block" | "external";
  readonly token?: string;
  readonly handle?: string;
  /** As text: it is near 1.8e18. */
  readonly sequence?: string;
  /** The pod itself named it (annotation `ipAddrsNoIpam`): nobody grants it, so nobody can be asked for it. */
  readonly isUngranted?: boolean;
}

/** Tells a repeated ADD from a different one. */
export interface RecordedRequest {
  /** Of everything that decides the result. */
  readonly digest: string;
  readonly cniVersion: string;
  /** Of the network configuration's text. */
  readonly configDigest: string;
  /** The call's body as it came (A§11.3), of which an undo, a GC and a retried DEL make theirs. */
  readonly call?: string;
}

/** The endpoint's copy in the cluster (A§6.3). */
export interface RecordedObject {
  readonly uid: string;
  readonly resourceVersion?: string;
}

export interface EndpointRecord {
  readonly id: number;
  readonly phase: Phase;
  readonly attachment: Attachment;
  /** `<namespace>/<pod>`; absent for a plain container. */
  readonly pod?: string;
  readonly podUID?: string;
  /** The UID by which the runtime knows the pod, where it says so: of a static pod another one than its mirror's. */
  readonly runtimePodUID?: string;
  readonly netns: RecordedNamespace;
  readonly bootId: string;

  readonly hostInterface?: RecordedHostInterface;
  readonly podInterface: string;
  readonly podMac?: string;
  readonly hostMac?: string;
  readonly linkForm: LinkForm;
  readonly linkKind?: "veth" | "netkit";

  readonly addresses: readonly RecordedAddress[];
  /** Absent until the plan is complete, and for an attached interface. */
  readonly desired?: DesiredState;

  readonly request?: RecordedRequest;
  /** The printed CNI result, byte for byte. */
  readonly result?: string;

  /** Of the page about identities; only carried here. */
  readonly labels?: JsonValue;
  readonly identity?: JsonValue;

  readonly object?: RecordedObject;
  readonly traceparent?: string;
  /** RFC 3339. */
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly committedAt?: string;
  /** The same on the clock that nobody sets (lib/system/boot-time.ts). */
  readonly committedBootMs?: number;

  /** While an ADD is repeated: the committed record as text, which counts again when that ADD is cut off. */
  readonly previous?: string;

  /** Members of the file that this version does not know: they are written back as they came. */
  readonly others?: JsonObject;
}

/** Key of an attachment in maps, and in a request's path (A§2.2): no part but the last can hold a ":". */
export function attachmentKey({ network, containerId, ifname }: Attachment): string {
  return `${network}:${containerId}:${ifname}`;
}

/** The attachment of a key that `attachmentKey` made. */
export function attachmentOfKey(key: string): Attachment {
  const [network = "", containerId = "", ...ifname] = key.split(":");
  return { network, containerId, ifname: ifname.join(":") };
}

export function isCommitted({ phase }: Pick<EndpointRecord, "phase">): boolean {
  return phase === "ready";
}

/**
 * A static pod is the kubelet's own: its mirror at the API server may go, or be made anew with another UID, while the containers run on.
 */
export function isOfStaticPod({ podUID, runtimePodUID }: Pick<EndpointRecord, "podUID" | "runtimePodUID">): boolean {
  return podUID !== undefined && runtimePodUID !== undefined && runtimePodUID !== podUID;
}

/** Whether an ADD was under way: what it did is taken back, not kept. */
export function isUnfinishedAdd({ phase }: Pick<EndpointRecord, "phase">): boolean {
  return phase === "creating" || phase.startsWith("adding:");
}

export function isDeleting({ phase }: Pick<EndpointRecord, "phase">): boolean {
  return phase.startsWith("deleting:");
}
