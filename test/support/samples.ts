/** Objects for tests, whole and valid; a test names only what it is about. */
import type { AutoAssignRequest } from "../../ipam-plugin/allocator/types.ts";
import { sizeOf } from "../../lib/addresses/address.ts";
import type { AllocationAttribute, Block, BlockAffinity, IPPool } from "../../lib/datastore/resources.ts";
import type { WorkloadEndpoint } from "../../lib/workload/endpoint.ts";
import { prefix } from "./addresses.ts";

/** A /29 of worker-1: ordinal 0 a tunnel, 1 a pod, 3 in cooldown (I§2.11). */
export function sampleBlock(changes: Partial<Block> = {}): Block {
  return {
    cidr: "10.40.0.8/29",
    affinity: { type: "host", name: "worker-1" },
    affinityClaimTime: "2026-08-22T13:33:20Z",
    allocations: [0, 1, null, 2, null, null, null, null],
    unallocated: [4, 5, 6, 7, 2],
    attributes: [
      { handleId: "vxlan-tunnel-addr-worker-1", activeOwner: { node: "worker-1", type: "vxlanTunnelAddress" } },
      {
        handleId: "k8s-pod-network.7f3c9d0e5b1a",
        activeOwner: { node: "worker-1", namespace: "shop", pod: "cart-x2x8q", timestamp: "2026-08-22 13:33:24.5 +0000 UTC" },
        alternateOwner: { node: "worker-2", "vmim-uid": "17" },
      },
      { releasedAt: "2026-08-22T13:41:07Z" },
    ],
    sequenceNumber: 1787405600123456006n,
    sequenceNumberForAllocation: { 0: 1787405600123456000n, 1: 1787405600123456001n, 3: 1787405600123456005n },
    ...changes,
  };
}

/** A block with nothing allocated. */
export function emptyBlock(cidr: string, size: number, changes: Partial<Block> = {}): Block {
  return {
    cidr,
    allocations: Array.from({ length: size }, () => null),
    unallocated: Array.from({ length: size }, (_, ordinal) => ordinal),
    attributes: [],
    sequenceNumber: 1787405600000000000n,
    sequenceNumberForAllocation: {},
    ...changes,
  };
}

/** A block whose first addresses are held, one by each of the attributes. */
export function heldBlock(cidr: string, attributes: readonly AllocationAttribute[], changes: Partial<Block> = {}): Block {
  const { allocations, unallocated, ...empty } = emptyBlock(cidr, Number(sizeOf(prefix(cidr))));
  return {
    ...empty,
    allocations: allocations.map((_, ordinal) => (ordinal < attributes.length ? ordinal : null)),
    unallocated: unallocated.slice(attributes.length),
    attributes,
    sequenceNumberForAllocation: Object.fromEntries(attributes.map((_, ordinal) => [ordinal, 900n + BigInt(ordinal)])),
    ...changes,
  };
}

/** Empty blocks of a node, and its affinities for them with these changes. */
export function owned(
  node: string,
  cidrs: readonly string[],
  changes: Partial<BlockAffinity> = {},
): { readonly blocks: Block[]; readonly affinities: BlockAffinity[] } {
  return {
    blocks: cidrs.map((cidr) => heldBlock(cidr, [], { affinity: { type: "host", name: node } })),
    affinities: cidrs.map((cidr) => sampleAffinity(node, cidr, changes)),
  };
}

/** A full block of 64, each address with its own pod, as a busy node has it. */
export function fullBlock(cidr: string, node: string): Block {
  const attributes: AllocationAttribute[] = Array.from({ length: 64 }, (_, ordinal) => ({
    handleId: `k8s-pod-network.${"0123456789abcdef".repeat(4).slice(String(ordinal).length)}${ordinal}`,
    activeOwner: { node, namespace: "shop", pod: `cart-6d9f7b8c9d-${ordinal}`, timestamp: "2026-08-22 13:33:24.123456789 +0000 UTC" },
  }));
  return {
    cidr,
    affinity: { type: "host", name: node },
    affinityClaimTime: "2026-08-22T13:33:20Z",
    allocations: attributes.map((_, ordinal) => ordinal),
    unallocated: [],
    attributes,
    sequenceNumber: 1787405600123456064n,
    sequenceNumberForAllocation: Object.fromEntries(attributes.map((_, ordinal) => [ordinal, 1787405600123456000n + BigInt(ordinal)])),
  };
}

/** A request of a workload on a node for one IPv4 address. */
export function sampleRequest(node: string, handle: string, changes: Partial<AutoAssignRequest> = {}): AutoAssignRequest {
  return { count4: 1, count6: 0, handle, attributes: { node }, owner: { type: "host", name: node }, use: "Workload", ...changes };
}

export function sampleAffinity(node: string, cidr: string, changes: Partial<BlockAffinity> = {}): BlockAffinity {
  return { owner: { type: "host", name: node }, cidr, state: "confirmed", labelled: true, ...changes };
}

export function samplePool(name: string, cidr: string, changes: Partial<IPPool> = {}): IPPool {
  return {
    name,
    cidr,
    blockSize: cidr.includes(":") ? 122 : 26,
    disabled: false,
    nodeSelector: "all()",
    namespaceSelector: "",
    allowedUses: ["Workload", "Tunnel"],
    assignmentMode: "Automatic",
    natOutgoing: true,
    deleting: false,
    ...changes,
  };
}

export function sampleEndpoint(namespace: string, name: string, changes: Partial<WorkloadEndpoint> = {}): WorkloadEndpoint {
  return {
    name,
    namespace,
    labels: { app: "cart", "projectcalico.org/namespace": namespace },
    orchestrator: "k8s",
    node: "worker-1",
    containerID: "7f3c9d0e5b1a",
    pod: "cart-x2x8q",
    endpoint: "eth0",
    serviceAccountName: "default",
    generateName: "cart-",
    ipNetworks: ["10.40.0.9/32", "fd80::9/128"],
    ipNATs: [{ internalIP: "10.40.0.9", externalIP: "192.0.2.9" }],
    profiles: ["kns.shop", "ksa.shop.default"],
    interfaceName: "cali1234567890a",
    mac: "ee:ee:ee:ee:ee:ee",
    ports: [{ name: "http", protocol: "TCP", port: 80, hostPort: 8080, hostIP: "" }],
    allowSpoofedSourcePrefixes: ["198.51.100.0/24"],
    ...changes,
  };
}
