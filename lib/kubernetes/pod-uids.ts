/** By which UIDs a pod goes. */
import type { Pod } from "./objects.ts";

/** A static pod goes by the digest of its file at the runtime; its mirror at the API server says which (kubelet, kubetypes). */
const RUNTIME_UIDS = ["kubernetes.io/config.hash", "kubernetes.io/config.mirror"];

/** Whether the runtime means this pod by a K8S_POD_UID: another pod of the same name has none of its UIDs. */
export function isPodOfUid({ uid, annotations }: Pick<Pod, "uid" | "annotations">, podUid: string): boolean {
  return uid === podUid || RUNTIME_UIDS.some((name) => annotations[name] === podUid);
}
