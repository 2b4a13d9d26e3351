/** The record that the main plugin keeps of a plain container, for tests that run the IPAM plugin alone. */
import type { WorkloadEndpoint } from "../../lib/workload/endpoint.ts";

export interface EndpointFacts {
  readonly node: string;
  readonly containerId: string;
  readonly network: string;
  /** Without prefix length. */
  readonly addresses: readonly string[];
}

export function workloadEndpointOf({ node, containerId, network, addresses }: EndpointFacts): WorkloadEndpoint {
  return {
    name: `${node.replaceAll("-", "--")}-cni-${containerId}-eth0`,
    namespace: "default",
    labels: {},
    orchestrator: "cni",
    node,
    containerID: containerId,
    pod: "",
    endpoint: "eth0",
    serviceAccountName: "",
    generateName: "",
    ipNetworks: addresses.map((address) => `${address}/${address.includes(":") ? 128 : 32}`),
    ipNATs: [],
    profiles: [network],
    interfaceName: `cali${containerId}`,
    mac: "",
    ports: [],
    allowSpoofedSourcePrefixes: [],
  };
}
