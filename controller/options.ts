/**
 * Lists the options of `tortie-controller` in one table, from which flags, variables, the JSON Schema of the file and the page for users
 * come.
 */
import { METRICS_ADDRESS_OPTION } from "../lib/resident/health-server.ts";
import type { Configurable } from "../lib/resident/options.ts";
import { LOG_OPTIONS, type OptionTable, type OptionValues } from "../lib/resident/options.ts";

/** A day. */
const LONGEST_S = 86_400;
/** Names of namespaces (RFC 1123 labels) with commas between them. */
const NAMES = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(,[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

export const OPTION_TABLE = {
  ...LOG_OPTIONS,
  "health-port": {
    group: "Process",
    type: "integer",
    default: 9880,
    minimum: 0,
    maximum: 65535,
    description: "TCP port of /livez, /readyz, /healthz and /metrics on 127.0.0.1; 0 turns it off",
  },
  "metrics-address": METRICS_ADDRESS_OPTION,
  kubeconfig: { group: "Cluster", type: "string", description: "As the key kubernetes.kubeconfig; default: the pod's own account" },
  "api-qps": {
    group: "Cluster",
    type: "integer",
    default: 50,
    minimum: 1,
    maximum: 1000,
    description: "Requests a second to the API server, without lists and watches",
  },
  "lease-namespace": { group: "Leader", type: "string", default: "kube-system", description: "Namespace of the lease" },
  "lease-name": { group: "Leader", type: "string", default: "tortie-controller", description: "Name of the lease that says who leads" },
  "lease-duration": {
    group: "Leader",
    type: "integer",
    default: 15,
    minimum: 3,
    maximum: 300,
    description: "Seconds after which others may take a lease that is not renewed; the leader stops writing after two thirds of it",
  },
  identity: { group: "Leader", type: "string", description: "Name of this controller in the lease; default: host name and a random part" },
  "scan-interval": {
    group: "Duties",
    type: "integer",
    default: 60,
    minimum: 1,
    maximum: LONGEST_S,
    description: "Seconds from one look at the whole cluster to the next",
  },
  "node-grace": {
    group: "Duties",
    type: "integer",
    default: 300,
    minimum: 1,
    maximum: LONGEST_S,
    description: "Seconds for which a node object must be missing before what the node had is released",
  },
  "leak-grace": {
    group: "Duties",
    type: "integer",
    default: 900,
    minimum: 0,
    maximum: LONGEST_S,
    description: "Seconds for which an address of a node that exists must be unused before it is released; 0: never",
  },
  "agent-grace": {
    group: "Duties",
    type: "integer",
    default: 60,
    minimum: 0,
    maximum: LONGEST_S,
    description:
      "Seconds for which a node's agent must not be ready before the node gets the condition NetworkUnavailable, which keeps new pods away; 0: never",
  },
  "calico-kube-controllers": {
    group: "Duties",
    type: "string",
    default: "auto",
    choices: ["auto", "present", "absent"],
    description:
      "Whether Calico's kube-controllers releases addresses: then this program does not; auto: found out from pods and Deployments",
  },
  "calico-namespaces": {
    group: "Duties",
    type: "string",
    pattern: NAMES,
    description: "Namespaces, separated by commas, in which Calico's kube-controllers is looked for besides kube-system and calico-system",
  },
  "ipv4-pool": {
    group: "New cluster",
    type: "string",
    default: "none",
    pattern: "^(none|auto|[0-9.]+/[0-9]+)$",
    description:
      "First IPv4 pool, made where there is none: a CIDR; auto: kubeadm's pod subnet, else exactly the ranges of nodes; none: made by others",
  },
  "ipv6-pool": {
    group: "New cluster",
    type: "string",
    default: "none",
    pattern: "^(none|auto|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*/[0-9]+)$",
    description: "First IPv6 pool, in the same way",
  },
  "cluster-information": {
    group: "New cluster",
    type: "boolean",
    default: false,
    description: "ClusterInformation, which says that plugins may work, is made where there is none",
  },
  "pool-finalizer": {
    group: "Duties",
    type: "boolean",
    default: true,
    description: "Pools get a finalizer, so that a pool which is deleted stays until its addresses are free",
  },
  "endpoint-objects": {
    group: "Duties",
    type: "boolean",
    default: true,
    description: "Delete the TortieEndpoint objects of nodes that are gone; nothing happens where the kind does not exist",
  },
  identities: {
    group: "Duties",
    type: "boolean",
    default: true,
    description:
      "Give each set of labels that pods have a number, as a TortieIdentity object; nothing happens where the kind does not exist",
  },
} as const satisfies OptionTable;

export type ControllerOptions = OptionValues<typeof OPTION_TABLE>;

export const CONTROLLER: Configurable<typeof OPTION_TABLE> = { program: "tortie-controller", table: OPTION_TABLE };
