/** Objects as Calico's programs write them (the examples of I§2.11). */
export const BLOCK_SPEC = {
  cidr: "10.40.0.8/29",
  affinity: "host:worker-1",
  affinityClaimTime: "2026-08-22T13:33:20Z",
  allocations: [0, 1, null, 2, null, null, null, null],
  unallocated: [4, 5, 6, 7, 2],
  attributes: [
    { handle_id: "vxlan-tunnel-addr-worker-1", secondary: { node: "worker-1", type: "vxlanTunnelAddress" } },
    {
      handle_id: "k8s-pod-network.7f3c9d0e5b1a",
      secondary: { node: "worker-1", namespace: "shop", pod: "cart-6d9f7-x2x8q", timestamp: "2026-08-22 13:33:24.5 +0000 UTC" },
    },
    { releasedAt: "2026-08-22T13:41:07Z" },
  ],
  sequenceNumber: 1787405600123456006n,
  sequenceNumberForAllocation: { "0": 1787405600123456000n, "1": 1787405600123456001n, "3": 1787405600123456005n },
  deleted: false,
  strictAffinity: false,
};

export const AFFINITY_LABELS = {
  "projectcalico.org/hostname-hash": "CPU5J3TPSNHFA66J45DG4Z5C3PSJAZ36LD46JZLYEGZSTAWBUCUA",
  "projectcalico.org/affinity-type": "host",
  "projectcalico.org/ip-version": "4",
};

export const CONFIGURATION = {
  strictAffinity: false,
  autoAllocateBlocks: true,
  maxBlocksPerHost: 0,
  kubeVirtVMAddressPersistence: "Enabled",
  ipCooldownSeconds: 60,
} as const;

export const POOL_SPEC = {
  cidr: "10.40.0.0/24",
  blockSize: 29,
  natOutgoing: true,
  nodeSelector: "zone == 'edge'",
  allowedUses: ["Workload", "Tunnel"],
  assignmentMode: "Automatic",
  disabled: false,
};
