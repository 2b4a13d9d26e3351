/** What plays recordings: on which store, which of them it can play, and what differs there on purpose. */

import type { TestEtcd } from "../../support/etcd/etcd.ts";
import { LOCAL_DIFFERENCES, LOCAL_GENERAL } from "../differences/differences.ts";
import { AGENT_DIFFERENCES } from "../differences/differences-agent.ts";
import { AGENT_KUBERNETES_DIFFERENCES, AGENT_KUBERNETES_GENERAL } from "../differences/differences-agent-kubernetes.ts";
import { ETCD_DIFFERENCES, ETCD_GENERAL } from "../differences/differences-etcd.ts";
import { KUBERNETES_DIFFERENCES, KUBERNETES_GENERAL } from "../differences/differences-kubernetes.ts";
import type { DeliberateDifference, GeneralDifference } from "../differences/expected-difference.ts";
import type { Recording } from "../recording/recording.ts";
import { etcdStore } from "../store/etcd/etcd-store.ts";
import type { ReplayCluster } from "../store/kubernetes/cluster.ts";
import { kubernetesStore } from "../store/kubernetes/kubernetes-store.ts";
import { LOCAL_STORE } from "../store/local-store.ts";
import type { StoreKind } from "../store/replay-store.ts";
import { needOf } from "./applicability.ts";

export interface Runner {
  /** "the local store" */
  readonly name: string;
  readonly kind: StoreKind;
  /** By scenario, "suite/name". */
  readonly differences: Readonly<Record<string, DeliberateDifference>>;
  readonly general: readonly GeneralDifference[];
  /** Plugins hand their calls to a resident agent. */
  readonly hasAgent?: boolean;
  plays(recording: Recording): boolean;
}

export const LOCAL_RUNNER: Runner = {
  name: "the local store",
  kind: LOCAL_STORE,
  differences: LOCAL_DIFFERENCES,
  general: LOCAL_GENERAL,
  plays: (recording) => needOf(recording) === undefined,
};

/**
 * A DEL that cannot look into its sandbox is finished by the agent itself, a moment after its answer, with the sandbox of its own record:
 * what is still allocated depends on when one looks.
 */
const FINISHED_BEHIND: ReadonlySet<string> = new Set(["main/del-netns-file"]);

export function isPlayedThroughAgent({ suite, name }: Recording): boolean {
  return !FINISHED_BEHIND.has(`${suite}/${name}`);
}

/** The same once more through an agent, which answers as the plugin does. */
export const AGENT_RUNNER: Runner = {
  ...LOCAL_RUNNER,
  plays: (recording) => LOCAL_RUNNER.plays(recording) && isPlayedThroughAgent(recording),
  name: "the local store, through an agent",
  hasAgent: true,
  differences: { ...LOCAL_DIFFERENCES, ...AGENT_DIFFERENCES },
};

/** What was recorded on Kubernetes, with an agent that serves the main plugin's calls. */
export function kubernetesAgentRunner(cluster: ReplayCluster): Runner {
  const alone = kubernetesRunner(cluster);
  return {
    ...alone,
    plays: (recording) => alone.plays(recording) && isPlayedThroughAgent(recording),
    name: "a real API server, through an agent",
    hasAgent: true,
    differences: AGENT_KUBERNETES_DIFFERENCES,
    general: AGENT_KUBERNETES_GENERAL,
  };
}

export function kubernetesRunner(cluster: ReplayCluster): Runner {
  return {
    name: "a real API server",
    kind: kubernetesStore(cluster),
    differences: KUBERNETES_DIFFERENCES,
    general: KUBERNETES_GENERAL,
    plays: isPlayedOnKubernetes,
  };
}

/** What was recorded on etcd. @param cluster for pods; absent: scenarios without them only */
export function etcdRunner(etcd: TestEtcd, cluster?: ReplayCluster): Runner {
  return {
    name: "a real etcd",
    kind: etcdStore(etcd, cluster),
    differences: ETCD_DIFFERENCES,
    general: ETCD_GENERAL,
    plays: isPlayedOnEtcd,
  };
}

export function isPlayedOnEtcd({ store }: Recording): boolean {
  return store === "etcdv3";
}

/** What was recorded on Kubernetes. */
export function isPlayedOnKubernetes({ store }: Recording): boolean {
  return store === "kubernetes";
}
