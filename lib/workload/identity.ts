/** Who a container is to the network: a Kubernetes pod, or a plain container (C§1.5, C§2.1 step 6). */
import type { CniArgs } from "./cni-args.ts";

export interface WorkloadIdentity {
  readonly orchestrator: "k8s" | "cni";
  readonly node: string;
  readonly namespace: string;
  /** Empty for a plain container. */
  readonly pod: string;
  readonly containerId: string;
  /** Name of the endpoint: the interface's name inside the sandbox. */
  readonly endpoint: string;
}

export interface IdentityFacts {
  readonly containerId: string;
  readonly interfaceName: string;
  readonly args: CniArgs;
  readonly node: string;
}

/** A pod is one that has both names; with only one of them it is a plain container (recordings args-11, args-13). */
export function identifyWorkload({ containerId, interfaceName, args, node }: IdentityFacts): WorkloadIdentity {
  if (args.podName !== "" && args.podNamespace !== "") {
    const { podName: pod, podNamespace: namespace } = args;
    return { orchestrator: "k8s", node, namespace, pod, containerId, endpoint: interfaceName };
  }
  return { orchestrator: "cni", node, namespace: args.testNamespace || "default", pod: "", containerId, endpoint: interfaceName };
}
