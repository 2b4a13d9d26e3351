/** Names by which a person may call an endpoint. */

import type { EndpointModel } from "../../../../agent/api/endpoint-schema.ts";
import { endpointNamed, isNameOfApi } from "../../../../cmd/tortiectl/node/run.ts";

function endpoint(id: number, containerId: string, address: string, pod?: string): EndpointModel {
  const [namespace, name] = pod?.split("/") ?? [];
  return {
    id,
    spec: { options: {} },
    status: {
      state: "ready",
      phase: "ready",
      "external-identifiers": {
        "container-id": containerId,
        "cni-attachment-id": `${containerId}:eth0`,
        ...(name === undefined ? {} : { "k8s-pod-name": name, "k8s-namespace": namespace }),
      },
      attachment: { network: "pods", "container-id": containerId, ifname: "eth0" },
      networking: {
        addressing: [],
        addresses: [{ address, family: address.includes(":") ? "ipv6" : "ipv4", grant: "block" }],
        "interface-name": `cali${id}`,
        "container-interface-name": "eth0",
        "link-form": "routed",
        netns: "/run/netns/x",
      },
      labels: [],
      health: { overallHealth: "OK", bpf: "Disabled", policy: "Disabled", connected: true },
      log: [],
      "created-at": "2026-01-01T00:00:00Z",
    },
  };
}

const ENDPOINTS = [
  endpoint(1, "4d2fa0", "10.244.0.1", "default/web"),
  endpoint(2, "4d2fb1", "fd44:244::2", "other/web"),
  endpoint(3, "77aa", "10.244.0.3"),
  endpoint(4, "77aabb", "10.244.0.4", "default/db"),
];

describe("an endpoint's name", () => {
  it.each([
    ["10.244.0.3", 3],
    ["fd44:244:0::2", 2],
    ["default/web", 1],
    ["db", 4],
    ["4d2fb", 2],
    ["77aa", 3],
    ["77aab", 4],
    ["cali3", 3],
  ])("may be %s", (text, id) => {
    expect(endpointNamed(text, ENDPOINTS).id).toBe(id);
  });

  it.each([
    ["web", "endpoint-ambiguous", '"web" may be one of 1 (4d2fa0), 2 (4d2fb1)'],
    ["4d2f", "endpoint-ambiguous", '"4d2f" may be one of 1 (4d2fa0), 2 (4d2fb1)'],
    ["10.244.0.9", "endpoint-unknown", 'no endpoint of this node is called "10.244.0.9"'],
    ["efault/web", "endpoint-unknown", "no endpoint"],
  ])("%s is none: %s", (text, word, message) => {
    expect(() => endpointNamed(text, ENDPOINTS)).toThrow(expect.objectContaining({ word, message: expect.stringContaining(message) }));
  });

  it("goes to the agent as it is when it is a number or has a prefix", () => {
    expect(["7", "container-id:4d", "pod-name:a/b", "ipv6:fd44::1"].map(isNameOfApi)).toEqual([true, true, true, true]);
    expect(["fd44:244::2", "4d2f", "default/web", "123456"].map(isNameOfApi)).toEqual([false, false, false, false]);
  });
});
