/**
 * Keeps the record of a pod: three annotations that ADD writes and DEL blanks (C§3.1), by patches of the status sub-resource, which need no
 * right but `pods/status` (C§7.6). Felix and kube-controllers read them long before kubelet publishes the address.
 */
import { formatPrefix, hostPrefix, parsePrefix } from "../../addresses/address.ts";
import type { NamespacedName, Pod } from "../../kubernetes/objects.ts";
import { isSubdomain } from "../../system/subdomain.ts";
import { ANNOTATION_PREFIX } from "../../workload/annotations/annotation.ts";
import { listedAddresses, POD_IP, POD_IPS } from "../../workload/annotations/pod-addresses.ts";
import type { EndpointKey, WorkloadEndpoint } from "../../workload/endpoint.ts";
import { parseWorkloadEndpointName } from "../../workload/names.ts";
import type { Clearing, EndpointRecords, RecordedAddresses, WorkloadAsRead } from "../datastore.ts";
import { DatastoreError, isDatastoreFailure } from "../errors.ts";
import type { ApiCore, Patch } from "./api-core.ts";
import { failureOf, hasStatus } from "./resource-api.ts";

const NOT_FOUND = 404;
const UNPROCESSABLE = 422;

export const CONTAINER_ID = `${ANNOTATION_PREFIX}containerID`;

/**
 * Reads what the annotations say; nothing when no ADD has written them, or a DEL has blanked them. Text that is no address counts as none:
 * a broken annotation must not stand between a DEL and the container's addresses (design §8, del-bad-*).
 */
export function recordOfPod({ annotations }: Pick<Pod, "annotations">): RecordedAddresses | undefined {
  const containerID = annotations[CONTAINER_ID] ?? "";
  const ipNetworks: string[] = [];
  for (const text of listedAddresses(annotations[POD_IPS] || annotations[POD_IP] || "").elements) {
    const prefix = parsePrefix(text.trim());
    if (prefix !== undefined) ipNetworks.push(formatPrefix(hostPrefix(prefix.address)));
  }
  return containerID === "" || ipNetworks.length === 0 ? undefined : { containerID, ipNetworks };
}

/** Each operation is one request, but for a `write` that does not know the pod's uid. */
export class PodRecords implements EndpointRecords {
  readonly #core: ApiCore;

  constructor(core: ApiCore) {
    this.#core = core;
  }

  async read(key: EndpointKey): Promise<RecordedAddresses | undefined> {
    const pod = podOf(key);
    const found = pod && (await this.#core.pod(pod));
    return found && recordOfPod(found);
  }

  /** The patch carries the pod's uid. @throws DatastoreError `not-found` when the pod is gone, or a new pod has its name */
  async write(endpoint: WorkloadEndpoint, { podUid, containerID }: WorkloadAsRead = {}): Promise<void> {
    const pod = podOf(endpoint);
    const uid = podUid ?? (pod && (await this.#core.pod(pod)))?.uid;
    if (pod === undefined || uid === undefined) throw missing(endpoint);
    try {
      await patchPod(this.#core, pod, annotatingPatch({ uid }, endpoint));
    } catch (error) {
      // No answer does not mean that nothing was written. What an earlier ADD of this container wrote stays: its DEL clears it.
      if (isDatastoreFailure(error, "unavailable") && containerID !== endpoint.containerID) await this.#undo(endpoint, error);
      throw error;
    }
  }

  /** Sends one patch, whose condition the server judges. */
  async clear(key: EndpointKey, containerId: string): Promise<Clearing> {
    const pod = podOf(key);
    if (pod === undefined) return "gone";
    try {
      await this.#core.patchStatus(pod, clearingPatch(containerId));
      return "cleared";
    } catch (error) {
      if (hasStatus(error, NOT_FOUND)) return "gone";
      // Validation names its causes; a patch whose test fails, or whose test finds no annotation, is refused as a whole, without any.
      if (hasStatus(error, UNPROCESSABLE) && error.causes.length === 0) return "not-ours";
      throw failureOf(error, describe(pod));
    }
  }

  /** @throws SuppressedError with `error` when the annotations may be there and cannot be cleared */
  async #undo(endpoint: WorkloadEndpoint, error: unknown): Promise<void> {
    try {
      await this.clear(endpoint, endpoint.containerID);
    } catch (failure) {
      throw new SuppressedError(failure, error);
    }
  }
}

/** Finds the pod that an endpoint is of; `undefined` when the name is not one of a Kubernetes pod: there are no such endpoints here. */
export function podOf({ namespace, name }: EndpointKey): NamespacedName | undefined {
  const parts = parseWorkloadEndpointName(name);
  if (parts?.orchestrator !== "k8s" || !isSubdomain(parts.workload) || !isSubdomain(namespace)) return undefined;
  return { namespace, name: parts.workload };
}

/**
 * @returns the pod as it is then, in JSON
 * @throws DatastoreError `not-found` when there is no such pod, or only another one of that name, which the server finds out by
 * validating the patch (C§7.6); `conflict`
 */
export async function patchPod(core: ApiCore, pod: NamespacedName, patch: Patch): Promise<string> {
  try {
    return await core.patchStatus(pod, patch);
  } catch (error) {
    throw failureOf(error, describe(pod));
  }
}

/** What must hold of the pod for a patch to be carried out. */
interface PodPreconditions {
  readonly uid: string;
  readonly resourceVersion?: string;
}

/** Without addresses only the container's id is written, as Calico does (C§7.6). */
export function annotatingPatch(preconditions: PodPreconditions, { containerID, ipNetworks }: RecordedAddresses): Patch {
  const [first] = ipNetworks;
  return annotationsPatch(preconditions, {
    [CONTAINER_ID]: containerID,
    ...(first === undefined ? {} : { [POD_IP]: first, [POD_IPS]: ipNetworks.join(",") }),
  });
}

/** The container's id stays: it says whose the blanks are. */
export function blankingPatch(preconditions: PodPreconditions): Patch {
  return annotationsPatch(preconditions, { [POD_IP]: "", [POD_IPS]: "" });
}

/** A strategic merge patch that carries the uid or the revision of another object is refused by the server's validation. */
function annotationsPatch(preconditions: PodPreconditions, annotations: Readonly<Record<string, string>>): Patch {
  return {
    contentType: "application/strategic-merge-patch+json",
    body: JSON.stringify({ metadata: { ...preconditions, annotations } }),
  };
}

/** Blanks the addresses if the pod is this container's: the server compares and writes in one step (RFC 6902, section 4.6). */
function clearingPatch(containerID: string): Patch {
  return {
    contentType: "application/json-patch+json",
    body: JSON.stringify([
      { op: "test", path: annotationPath(CONTAINER_ID), value: containerID },
      { op: "add", path: annotationPath(POD_IP), value: "" },
      { op: "add", path: annotationPath(POD_IPS), value: "" },
    ]),
  };
}

/** Writes a JSON pointer (RFC 6901, section 3). */
function annotationPath(annotation: string): string {
  return `/metadata/annotations/${annotation.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

function describe({ namespace, name }: NamespacedName): string {
  return `Pod(${namespace}/${name})`;
}

/** @param why goes on after the name */
export function missing({ namespace, name }: EndpointKey, why = ""): DatastoreError {
  return new DatastoreError("not-found", `resource does not exist: WorkloadEndpoint(${namespace}/${name})${why}`);
}
