/** Endpoint records written by hand, for tests of the agent. */
import type { EndpointRecord } from "../../handover/record.ts";

/** A committed endpoint of a plain container. */
export function recordOf(id: number, changes: Partial<EndpointRecord> = {}): EndpointRecord {
  return {
    id,
    phase: "ready",
    attachment: { network: "net1", containerId: `cid${id}`, ifname: "eth0" },
    netns: { path: `/run/netns/pod${id}` },
    bootId: "boot-1",
    podInterface: "eth0",
    linkForm: "routed",
    addresses: [],
    createdAt: "2026-01-01T00:00:00Z",
    updatedAt: "2026-01-01T00:00:01Z",
    ...changes,
  };
}
