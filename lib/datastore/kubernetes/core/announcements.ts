/**
 * The three annotations that ADD writes on a pod and DEL blanks (C§3.1), as patches of the status sub-resource, which needs no right
 * but `pods/status` (C§7.6). Felix and kube-controllers read them long before kubelet publishes the address.
 */
import { ANNOTATION_PREFIX } from "../../../workload/annotations/annotation.ts";
import { POD_IP, POD_IPS } from "../../../workload/annotations/pod-addresses.ts";
import type { PodAnnouncement } from "./core.ts";

const CONTAINER_ID = `${ANNOTATION_PREFIX}containerID`;

export interface Patch {
  readonly contentType: string;
  readonly body: string;
}

/** What must hold of the pod for a patch to be carried out. */
export interface PodPreconditions {
  readonly uid: string;
  readonly resourceVersion?: string;
}

/** Without networks only the container's id is told, as Calico does (C§7.6). */
export function announcementPatch(preconditions: PodPreconditions, { containerID, ipNetworks }: PodAnnouncement): Patch {
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
export function withdrawalPatch(containerID: string): Patch {
  return {
    contentType: "application/json-patch+json",
    body: JSON.stringify([
      { op: "test", path: annotationPath(CONTAINER_ID), value: containerID },
      { op: "add", path: annotationPath(POD_IP), value: "" },
      { op: "add", path: annotationPath(POD_IPS), value: "" },
    ]),
  };
}

/** JSON pointer (RFC 6901, section 3). */
function annotationPath(annotation: string): string {
  return `/metadata/annotations/${annotation.replaceAll("~", "~0").replaceAll("/", "~1")}`;
}
