/** The Kubernetes objects that are not Calico's, as far as Tortie reads them. */

export interface NamespacedName {
  readonly namespace: string;
  readonly name: string;
}

/** An owner of an object (metadata.ownerReferences). */
export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly isController: boolean;
}

export interface ContainerPort {
  /** Empty when the port has none. */
  readonly name: string;
  /** As the API gives it; empty means TCP. */
  readonly protocol: string;
  readonly containerPort: number;
  /** 0 when absent. */
  readonly hostPort: number;
  readonly hostIP: string;
}

export interface Pod extends NamespacedName {
  readonly uid: string;
  readonly resourceVersion: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly owners: readonly OwnerReference[];
  readonly generateName: string;
  /** RFC 3339; empty when absent. */
  readonly creationTimestamp: string;
  /** deletionTimestamp is set. */
  readonly isDeleting: boolean;
  /** `spec.nodeName`; empty while the pod is not scheduled. */
  readonly nodeName: string;
  readonly serviceAccountName: string;
  readonly isHostNetwork: boolean;
  /** Of `spec.containers`, then of `spec.initContainers`. */
  readonly ports: readonly ContainerPort[];
  /** `status.phase`. */
  readonly phase: string;
  /** `status.podIP`; empty when absent. */
  readonly podIP: string;
  /** `status.podIPs[].ip`. */
  readonly podIPs: readonly string[];
}

export interface Namespace {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

export interface ClusterNode {
  readonly name: string;
  /** Labels of the annotation `projectcalico.org/labels`, overlaid by the node's own (I§3.1). */
  readonly labels: Readonly<Record<string, string>>;
  /** `spec.podCIDRs`. */
  readonly podCIDRs: readonly string[];
}
