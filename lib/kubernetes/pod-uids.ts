/** By which UIDs a pod goes. */
import type { Pod } from "./objects.ts";

/**
 * A static pod goes by the digest of its file at the runtime; its mirror at the API server says which (kubelet, kubetypes). The mirror's
 * own UID is another one each time that it is made.
 */
const RUNTIME_UIDS = ["kubernetes.io/config.hash", "kubernetes.io/config.mirror"];

/** Every UID that stands for the pod. */
export function uidsOfPod({ uid, annotations }: Pick<Pod, "uid" | "annotations">): readonly string[] {
  return [uid, ...RUNTIME_UIDS.flatMap((name) => annotations[name] ?? [])];
}

/** Whether the runtime means this pod by a K8S_POD_UID: another pod of the same name has none of its UIDs. */
export function isPodOfUid(pod: Pick<Pod, "uid" | "annotations">, podUid: string): boolean {
  return uidsOfPod(pod).includes(podUid);
}
