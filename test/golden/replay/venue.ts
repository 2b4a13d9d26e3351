/** Where recordings are played: the store, which of them it can play, and what differs there on purpose. */
import { needOf } from "../compare/applicability.ts";
import type { DeliberateDifference, GeneralDifference } from "../compare/deliberate.ts";
import { LOCAL_DIFFERENCES, LOCAL_GENERAL } from "../differences/differences.ts";
import { KUBERNETES_DIFFERENCES, KUBERNETES_GENERAL } from "../differences/differences-kubernetes.ts";
import type { Recording } from "../recording.ts";
import type { ReplayCluster } from "./kubernetes-cluster.ts";
import { kubernetesStore } from "./kubernetes-store.ts";
import { LOCAL_STORE } from "./local-store.ts";
import type { StoreKind } from "./replay-store.ts";

export interface Venue {
  /** "the local store" */
  readonly name: string;
  readonly kind: StoreKind;
  /** By scenario, "suite/name". */
  readonly differences: Readonly<Record<string, DeliberateDifference>>;
  readonly general: readonly GeneralDifference[];
  plays(recording: Recording): boolean;
}

export const LOCAL_VENUE: Venue = {
  name: "the local store",
  kind: LOCAL_STORE,
  differences: LOCAL_DIFFERENCES,
  general: LOCAL_GENERAL,
  plays: (recording) => needOf(recording) === undefined,
};

export function kubernetesVenue(cluster: ReplayCluster): Venue {
  return {
    name: "a real API server",
    kind: kubernetesStore(cluster),
    differences: KUBERNETES_DIFFERENCES,
    general: KUBERNETES_GENERAL,
    plays: isPlayedOnKubernetes,
  };
}

/** What was recorded on etcd waits for that store. */
export function isPlayedOnKubernetes({ store }: Recording): boolean {
  return store === "kubernetes";
}
