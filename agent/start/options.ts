/**
 * Lists the options of `tortie-node` in one table, from which the flags, the variables, the JSON Schema of the file and the page for users
 * come (A§1.1, A§2.1, A§4.2). Names are those of the contract and of the network configuration's keys.
 */

import type { Environment } from "../../lib/cni/protocol.ts";
import { TortieError } from "../../lib/errors/errors.ts";
import { METRICS_ADDRESS_OPTION } from "../../lib/resident/health-server.ts";
import {
  ABSOLUTE,
  type Configurable,
  LOG_OPTIONS,
  type OptionTable,
  type OptionValues,
  resolveOptions as resolve,
} from "../../lib/resident/options.ts";

const LARGEST = 2 ** 31 - 1;

export const OPTION_TABLE = {
  "run-dir": {
    group: "Process",
    type: "string",
    default: "/run/tortie",
    pattern: ABSOLUTE,
    description: "Directory of the socket, the state and the queues",
  },
  "socket-group": { group: "Process", type: "string", default: "tortie", description: "Group whose members may read over the API" },
  ...LOG_OPTIONS,
  "otlp-endpoint": {
    group: "Process",
    type: "string",
    // Everybody who may read over the API, or list processes, sees it: nothing secret has a place in it.
    pattern: "^https?://[^@/?#\\\\]+(/[^?#]*)?$",
    description:
      "Base URL of an OTLP/HTTP receiver that gets the traces of calls, without user, password and query: credentials go into the variable " +
      "OTEL_EXPORTER_OTLP_HEADERS; default: the variable OTEL_EXPORTER_OTLP_ENDPOINT, else none",
  },
  "health-port": {
    group: "Process",
    type: "integer",
    default: 9879,
    minimum: 0,
    maximum: 65535,
    description: "TCP port of /livez, /readyz, /healthz and /metrics on 127.0.0.1; 0 turns it off",
  },
  "metrics-address": METRICS_ADDRESS_OPTION,
  "node-name": {
    group: "Cluster",
    type: "string",
    description: "Name of this node; default: the variable K8S_NODE_NAME, else the nodename file, else the host's name",
  },
  "datastore-type": {
    group: "Datastore",
    type: "string",
    choices: ["local", "kubernetes", "etcdv3"],
    description: "As the key datastore_type",
  },
  "datastore-path": {
    group: "Datastore",
    type: "string",
    pattern: ABSOLUTE,
    description: "As the key datastore_path: the file of the local datastore",
  },
  kubeconfig: { group: "Datastore", type: "string", description: "As the key kubernetes.kubeconfig" },
  ipam: {
    group: "Addresses",
    type: "string",
    default: "blocks",
    choices: ["blocks", "host-scope"],
    description: "Where this node's addresses come from: with host-scope its ranges are found out at the start and served over the API",
  },
  "enable-ipv4": { group: "Addresses", type: "boolean", default: true, description: "Addresses of IPv4 from this node's range" },
  "enable-ipv6": { group: "Addresses", type: "boolean", default: true, description: "Addresses of IPv6 from this node's range" },
  "ipv4-range": { group: "Addresses", type: "string", default: "auto", description: "IPv4 range of this node: a CIDR, auto, or auto-host" },
  "ipv6-range": { group: "Addresses", type: "string", default: "auto", description: "IPv6 range of this node: a CIDR, auto, or auto-host" },
  "ipv6-cluster-alloc-cidr": {
    group: "Addresses",
    type: "string",
    default: "f00d::/64",
    description: "The /64 that automatic IPv6 ranges come from",
  },
  "cluster-cidr": {
    group: "Addresses",
    type: "string",
    default: "",
    description:
      "Where all pod ranges of the cluster lie, CIDRs with commas between them: with host-scope, what a node without spec.podCIDRs says " +
      "of its range counts only inside of them; empty: only for ranges of /16 to /31 (IPv6 /64 to /127) outside of the hosts' subnets",
  },
  "ipv4-node": { group: "Addresses", type: "string", default: "auto", description: "This node's own IPv4 address" },
  "ipv6-node": { group: "Addresses", type: "string", default: "auto", description: "This node's own IPv6 address" },
  "require-ipv4-pod-cidr": {
    group: "Addresses",
    type: "boolean",
    default: false,
    description: "The node object must bring the IPv4 range",
  },
  "require-ipv6-pod-cidr": {
    group: "Addresses",
    type: "boolean",
    default: false,
    description: "The node object must bring the IPv6 range",
  },
  "ipam-strategy": {
    group: "Addresses",
    type: "string",
    default: "random",
    choices: ["random", "contiguous", "next"],
    description: "Which free address of the node's range comes next",
  },
  "ipam-cooldown": {
    group: "Addresses",
    type: "integer",
    default: 30,
    minimum: 0,
    maximum: 86_400,
    description: "Seconds in which a released address of the node's range is given out only when nothing else is free",
  },
  "first-pool-wait": {
    group: "Cluster",
    type: "integer",
    default: 0,
    minimum: 0,
    maximum: 60,
    description:
      "Seconds for which an ADD waits in a new cluster for what the controller makes there: ClusterInformation and the first pool",
  },
  "node-wait": {
    group: "Cluster",
    type: "integer",
    default: 600,
    minimum: 0,
    maximum: LARGEST,
    description: "Seconds of waiting for the node object after which the agent counts as not ready",
  },
  "node-wait-fatal": {
    group: "Cluster",
    type: "boolean",
    default: false,
    description: "The process ends after node-wait instead of waiting on",
  },
  "annotate-k8s-node": {
    group: "Cluster",
    type: "boolean",
    default: true,
    description: "Write the ranges to the node object's annotations",
  },
  "read-cilium-annotations": {
    group: "Cluster",
    type: "boolean",
    default: false,
    description: "Read Cilium's range annotations after ours",
  },
  "node-routes": {
    group: "Cluster",
    type: "string",
    default: "off",
    choices: ["off", "direct", "vxlan"],
    description: "Routes to other nodes' pods where no Felix makes them: within the subnet only, or through VXLAN where pools ask for it",
  },
  "policy-warning": {
    group: "Cluster",
    type: "boolean",
    default: true,
    description: "Warn where NetworkPolicy objects exist and neither this agent nor Felix enforces them; false where another program does",
  },
  "manage-cni": {
    group: "Cluster",
    type: "boolean",
    default: false,
    description: "Keep what `tortiectl install` has placed right: the plugins' token and kubeconfig, TLS files and the conflist",
  },
  "endpoint-objects": { group: "Cluster", type: "boolean", default: false, description: "Write a TortieEndpoint object for each pod" },
  "object-qps": {
    group: "Cluster",
    type: "integer",
    default: 5,
    minimum: 1,
    maximum: 1000,
    description: "Requests a second for endpoint objects, with a burst of four times as many",
  },
  "max-controller-interval": {
    group: "Cluster",
    type: "integer",
    default: 0,
    minimum: 0,
    maximum: LARGEST,
    description: "Seconds that cap the pause of every controller; 0 is no cap",
  },
  policy: {
    group: "Policy",
    type: "string",
    default: "auto",
    choices: ["auto", "off"],
    description:
      "Enforce NetworkPolicy: auto does where there are policies to read (an API server, or the directory of policy-directory) and where " +
      "Felix does not; off takes away what an earlier start left in the kernel",
  },
  enforcement: {
    group: "Policy",
    type: "string",
    default: "default",
    choices: ["default", "always", "never"],
    description:
      "When a direction of a pod is closed: default, if a policy selects the pod in it; always, without a policy too; never, although " +
      "policies say so",
  },
  "policy-wait-seconds": {
    group: "Policy",
    type: "integer",
    default: 10,
    minimum: 0,
    maximum: 120,
    description: "Seconds for which an ADD waits until the kernel holds the pod's policy, before it fails; 0: it does not wait",
  },
  "policy-log-group": {
    group: "Policy",
    type: "integer",
    default: 4789,
    minimum: 0,
    maximum: 65535,
    description: "Group of NFLOG over which the kernel tells the agent of packets that policy drops",
  },
  "policy-directory": {
    group: "Policy",
    type: "string",
    default: "/etc/tortie/policies",
    pattern: ABSOLUTE,
    description: "Directory of YAML files with policies and namespaces, where there is no API server",
  },
  "max-endpoints": { group: "Endpoints", type: "integer", default: 4095, minimum: 1, maximum: 65535, description: "Highest endpoint id" },
} as const satisfies OptionTable;

export type OptionName = keyof typeof OPTION_TABLE;
export const OPTION_NAMES = Object.keys(OPTION_TABLE) as readonly OptionName[];

/** The options of one agent, by their names on the command line. */
export type AgentOptions = OptionValues<typeof OPTION_TABLE>;

export const AGENT: Configurable<typeof OPTION_TABLE> = { program: "tortie-node", table: OPTION_TABLE };

/**
 * @param flags as the command line had them, without those that it did not name
 * @param file what `--config` or TORTIE_CONFIG names
 * @throws TortieError `option-invalid`
 */
export function resolveOptions(flags: Readonly<Record<string, unknown>>, env: Environment, file: string | undefined): AgentOptions {
  const options = resolve(AGENT, flags, env, file);
  if (options["enable-ipv4"] || options["enable-ipv6"]) return options;
  throw new TortieError("option-invalid", "Either IPv4 or IPv6 addressing must be enabled");
}
