/** Kubernetes objects as tests write and read them, and the URL paths they live at. */

export const LEGACY = "crd.projectcalico.org/v1";
export const V3 = "projectcalico.org/v3";
export type CalicoGroup = typeof LEGACY | typeof V3;

/** A record of an object's JSON: it is looked at with matchers, so its shape is left open. */
export type Fields = Readonly<Record<string, unknown>>;

interface Metadata {
  readonly name: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly deletionTimestamp?: string;
  readonly generateName?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly finalizers?: readonly string[];
  readonly ownerReferences?: readonly Fields[];
}

export interface ApiObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: Metadata;
  readonly spec?: Fields;
  readonly status?: Fields;
  readonly [key: string]: unknown;
}

/** What the server answers: names that only the server gives are there. */
export interface StoredObject extends ApiObject {
  readonly metadata: Metadata & { readonly uid: string; readonly resourceVersion: string };
}

/** Group and plural of the virtual machines that the plugins look at. */
export const KUBEVIRT_KINDS = [
  ["kubevirt.io/v1", "virtualmachines"],
  ["kubevirt.io/v1", "virtualmachineinstances"],
] as const;

/** Group and plural of Tortie's own objects. */
export const OWN_KINDS = [
  ["tortie.dev/v1alpha1", "tortieendpoints"],
  ["tortie.dev/v1alpha1", "tortieidentities"],
] as const;

interface Kind {
  readonly plural: string;
  readonly isNamespaced?: boolean;
  /** PUT of the object leaves the status alone; it has a path of its own. */
  readonly hasStatusPath?: boolean;
}

const KINDS: Readonly<Record<string, Kind>> = {
  "v1 Pod": { plural: "pods", isNamespaced: true, hasStatusPath: true },
  "v1 Node": { plural: "nodes", hasStatusPath: true },
  "v1 Namespace": { plural: "namespaces" },
  "v1 ConfigMap": { plural: "configmaps", isNamespaced: true },
  "v1 Secret": { plural: "secrets", isNamespaced: true },
  "v1 ServiceAccount": { plural: "serviceaccounts", isNamespaced: true },
  "rbac.authorization.k8s.io/v1 ClusterRole": { plural: "clusterroles" },
  "rbac.authorization.k8s.io/v1 ClusterRoleBinding": { plural: "clusterrolebindings" },
  "rbac.authorization.k8s.io/v1 Role": { plural: "roles", isNamespaced: true },
  "rbac.authorization.k8s.io/v1 RoleBinding": { plural: "rolebindings", isNamespaced: true },
  "networking.k8s.io/v1 NetworkPolicy": { plural: "networkpolicies", isNamespaced: true },
  "coordination.k8s.io/v1 Lease": { plural: "leases", isNamespaced: true },
  "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy": { plural: "validatingadmissionpolicies", hasStatusPath: true },
  "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding": { plural: "validatingadmissionpolicybindings" },
  "apps/v1 DaemonSet": { plural: "daemonsets", isNamespaced: true, hasStatusPath: true },
  "apps/v1 Deployment": { plural: "deployments", isNamespaced: true, hasStatusPath: true },
  "apiextensions.k8s.io/v1 CustomResourceDefinition": { plural: "customresourcedefinitions" },
  "kubevirt.io/v1 VirtualMachine": { plural: "virtualmachines", isNamespaced: true },
  "kubevirt.io/v1 VirtualMachineInstance": { plural: "virtualmachineinstances", isNamespaced: true },
  "tortie.dev/v1alpha1 TortieEndpoint": { plural: "tortieendpoints", isNamespaced: true, hasStatusPath: true },
  "tortie.dev/v1alpha1 TortieIdentity": { plural: "tortieidentities" },
  ...calicoKinds(LEGACY, { IPAMConfig: "ipamconfigs" }),
  ...calicoKinds(V3, { IPAMConfiguration: "ipamconfigurations" }),
  [`${V3} IPPool`]: { plural: "ippools", hasStatusPath: true },
};

function calicoKinds(group: CalicoGroup, configuration: Readonly<Record<string, string>>): Record<string, Kind> {
  const kinds = {
    IPPool: "ippools",
    IPAMBlock: "ipamblocks",
    BlockAffinity: "blockaffinities",
    IPAMHandle: "ipamhandles",
    IPReservation: "ipreservations",
    ClusterInformation: "clusterinformations",
    ...configuration,
  };
  return Object.fromEntries(Object.entries(kinds).map(([kind, plural]) => [`${group} ${kind}`, { plural }]));
}

/** The singleton `default` that says how addresses are given out. */
export function ipamConfigurationOf(group: CalicoGroup): { readonly kind: string; readonly plural: string } {
  return group === LEGACY ? { kind: "IPAMConfig", plural: "ipamconfigs" } : { kind: "IPAMConfiguration", plural: "ipamconfigurations" };
}

/** Plurals of one Calico group. */
export function calicoPlurals(group: CalicoGroup): readonly string[] {
  return Object.entries(KINDS).flatMap(([key, { plural }]) => (key.startsWith(`${group} `) ? [plural] : []));
}

/** What is known of an object's kind. @throws Error for a kind that the harness does not know */
export function kindOf(object: Pick<ApiObject, "apiVersion" | "kind">): Kind {
  const kind = KINDS[`${object.apiVersion} ${object.kind}`];
  if (kind === undefined) throw new Error(`the harness does not know ${object.apiVersion} ${object.kind}: add it to resources.ts`);
  return kind;
}

/** "/api/v1/namespaces/default/pods/web", "/apis/crd.projectcalico.org/v1/ippools". */
export function pathOf(apiVersion: string, plural: string, name?: string, namespace?: string): string {
  const root = apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  const within = namespace === undefined ? "" : `/namespaces/${encodeURIComponent(namespace)}`;
  return `${root}${within}/${plural}${name === undefined ? "" : `/${encodeURIComponent(name)}`}`;
}

export function isStoredObject(value: unknown): value is StoredObject {
  return typeof value === "object" && value !== null && "kind" in value && "metadata" in value;
}

/** A pod of one container that nothing starts, bound to a node without a scheduler. */
export function podOf(name: string, options: PodOptions = {}): ApiObject {
  const { namespace = "default", node = "node1", serviceAccountName, ports, status, ...metadata } = options;
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { ...metadata, name, namespace },
    spec: {
      nodeName: node,
      containers: [{ name: "c", image: "pause", ...(ports === undefined ? {} : { ports }) }],
      ...(serviceAccountName === undefined ? {} : { serviceAccountName }),
    },
    ...(status === undefined ? {} : { status }),
  };
}

export interface PodOptions {
  readonly namespace?: string;
  readonly node?: string;
  readonly generateName?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly finalizers?: readonly string[];
  readonly ownerReferences?: readonly Fields[];
  readonly serviceAccountName?: string;
  /** Ports of the container. */
  readonly ports?: readonly Fields[];
  readonly status?: Fields;
}

/** A pool for workloads and tunnels, 10.60.0.0/26 with one block unless told otherwise. */
export function poolOf(name: string, options: PoolOptions = {}): ApiObject {
  const { group = LEGACY, status, finalizers, ...fields } = options;
  return {
    apiVersion: group,
    kind: "IPPool",
    metadata: { name, ...(finalizers === undefined ? {} : { finalizers }) },
    spec: {
      cidr: "10.60.0.0/26",
      blockSize: options.cidr?.includes(":") === true ? 122 : 26,
      ipipMode: "Never",
      vxlanMode: "Never",
      natOutgoing: true,
      nodeSelector: "all()",
      allowedUses: ["Workload", "Tunnel"],
      ...fields,
    },
    ...(status === undefined ? {} : { status }),
  };
}

export interface PoolOptions extends Fields {
  readonly group?: CalicoGroup;
  readonly cidr?: string;
  readonly finalizers?: readonly string[];
  readonly status?: Fields;
}

export function networkPolicyOf(name: string, spec: Fields, namespace: string): ApiObject {
  return { apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", metadata: { name, namespace }, spec };
}

const UNREAD = { plural: "globalnetworkpolicies", kind: "GlobalNetworkPolicy", listKind: "GlobalNetworkPolicyList" };

/** Defines a kind of policies that nobody here enforces. */
export const UNREAD_DEFINITION: ApiObject = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: `${UNREAD.plural}.crd.projectcalico.org` },
  spec: {
    group: "crd.projectcalico.org",
    names: UNREAD,
    scope: "Cluster",
    versions: [
      {
        name: "v1",
        served: true,
        storage: true,
        schema: { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } },
      },
    ],
  },
};

export const UNREAD_PATH = `/apis/${LEGACY}/${UNREAD.plural}`;

export function unreadPolicyOf(name: string): ApiObject {
  return { apiVersion: LEGACY, kind: UNREAD.kind, metadata: { name }, spec: {} };
}
