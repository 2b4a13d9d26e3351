/** Makes the objects of a connectivity test in a cluster. Pure. */
import type { JsonObject } from "../../lib/json/value.ts";
import type { ProbeRequest } from "./question.ts";
import type { World } from "./world.ts";

/** Marks the namespaces of tests, so that whoever comes after a killed one finds them. */
export const LABEL = "tortie.dev/connectivity-test";
/** Until when the test of a namespace may still run, RFC 3339. */
export const ENDS = "tortie.dev/connectivity-test-ends";
const ROLE = "tortie.dev/connectivity-role";
/** Where the probe writes its reply; kubelet shows the text in the pod's status. */
export const REPLY_FILE = "/dev/termination-log";
/** Ends a pod whose test nobody removes. */
const LONGEST_SECONDS = 900;
/** Any user but root, as the release's image has it. */
const NOBODY = 65_532;

export interface PodWish {
  readonly name: string;
  readonly role: string;
  readonly node: string;
  readonly image: string;
  readonly command: readonly string[];
  readonly hostNetwork?: boolean;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly hostPort?: { readonly host: number; readonly pod: number };
  /** May send from a foreign address. */
  readonly isSpoofing?: boolean;
}

/** Describes a pod that is bound to its node by name: no scheduler is asked, and no taint keeps it away. */
export function podObject({
  name,
  role,
  node,
  image,
  command,
  hostNetwork = false,
  annotations = {},
  hostPort,
  isSpoofing = false,
}: PodWish): JsonObject {
  const ports = hostPort === undefined ? [] : [{ containerPort: hostPort.pod, hostPort: hostPort.host }];
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, labels: { [ROLE]: role }, annotations: { ...annotations } },
    spec: {
      nodeName: node,
      hostNetwork,
      restartPolicy: "Never",
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      terminationGracePeriodSeconds: 0,
      activeDeadlineSeconds: LONGEST_SECONDS,
      tolerations: [{ operator: "Exists" }],
      containers: [
        {
          name: "probe",
          image,
          imagePullPolicy: "IfNotPresent",
          command: [...command],
          ports,
          terminationMessagePath: REPLY_FILE,
          securityContext: {
            runAsUser: isSpoofing ? 0 : NOBODY,
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            seccompProfile: { type: "RuntimeDefault" },
            capabilities: { drop: ["ALL"], ...(isSpoofing && { add: ["NET_RAW"] }) },
          },
        },
      ],
    },
  };
}

/** The namespace asks for no pod security: host network and CAP_NET_RAW are what the test is about. */
export function namespaceObject(ends: Date): JsonObject {
  return {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: {
      generateName: "tortie-connectivity-",
      labels: { [LABEL]: "true", "pod-security.kubernetes.io/enforce": "privileged" },
      annotations: { [ENDS]: ends.toISOString() },
    },
  };
}

/** Closes what is called `closed`, but for one port. */
export function policyObject(port: number): JsonObject {
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name: "closed" },
    spec: {
      podSelector: { matchLabels: { [ROLE]: "closed" } },
      policyTypes: ["Ingress"],
      ingress: [{ ports: [{ protocol: "TCP", port }] }],
    },
  };
}

export function serveCommand(name: string, ports: readonly number[]): readonly string[] {
  return ["tortiectl", "connectivity", "serve", "--name", name, "--ports", ports.join(",")];
}

export function probeCommand(request: ProbeRequest): readonly string[] {
  return ["tortiectl", "connectivity", "probe", "--reply", REPLY_FILE, JSON.stringify(request)];
}

/** Lists the pods of a test: on each node one with a host port, one closed by a policy and the host itself; one with a limit. */
export function podWishes(nodes: readonly string[], ports: World["ports"], image: string, bitsPerSecond: number): readonly PodWish[] {
  const { serve, closed, host } = ports;
  const rate = String(bitsPerSecond);
  const limits = { "kubernetes.io/ingress-bandwidth": rate, "kubernetes.io/egress-bandwidth": rate };
  const served = (role: string, node: string, index: number, open: readonly number[]) => {
    const name = `${role}-${index}`;
    return { name, role, node, image, command: serveCommand(name, open) };
  };
  return nodes.flatMap((node, index) => [
    { ...served("web", node, index, [serve]), hostPort: { host, pod: serve } },
    { ...served("host", node, index, [serve]), hostNetwork: true },
    served("closed", node, index, [serve, closed]),
    ...(index === 0 ? [{ ...served("limited", node, index, [serve]), annotations: limits }] : []),
  ]);
}
