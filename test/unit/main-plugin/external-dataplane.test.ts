/** What another program that makes the links hears of an attachment. */
import { add } from "../../../main-plugin/add.ts";
import { resolveAddCall } from "../../../main-plugin/call.ts";
import { hostFor } from "../../../main-plugin/serve.ts";
import { fresh } from "../../support/fixtures.ts";
import { PodNode } from "../../support/pod-node.ts";

const conf = { dataplane_options: { type: "grpc", socket: "unix:///run/dataplane.sock" } };

describe("A dataplane that is another program", () => {
  const node = fresh(PodNode.create);

  it("is told the labels and annotations of a cluster's pod, which its record does not have", async () => {
    if (node.pod === undefined) throw new Error("there is one");
    const ports = [{ name: "http", containerPort: 80, hostPort: 0, hostIP: "", protocol: "TCP" }];
    node.pod = { ...node.pod, labels: { app: "cart" }, annotations: { tier: "front" }, ports };
    await node.add({ conf });
    expect(node.external?.workload).toMatchObject({
      namespace: "shop",
      pod: "cart",
      orchestrator: "k8s",
      labels: { app: "cart" },
      annotations: { tier: "front" },
      ports: [expect.objectContaining({ name: "http", port: 80 })],
    });
    expect(node.external?.addresses).toEqual([{ address: "10.60.0.0/26" }]);
  });

  it("is told of a plain container without a question about a pod", async () => {
    await using node = PodNode.forContainers();
    const { call, host: own } = node.parts({ conf });
    await add(resolveAddCall(call), { ...own, core: () => Promise.reject(new Error("no question about pods")) });
    expect(node.external?.workload).toMatchObject({ orchestrator: "cni", labels: {}, annotations: {}, ports: [] });
  });

  it("is none unless the configuration names one", async () => {
    await node.add();
    expect(node.external).toBeUndefined();
    const { call, host: own } = node.parts();
    expect((await hostFor(call, own)).dataplane).toBe(own.dataplane);
    const named = node.parts({ conf });
    expect((await hostFor(named.call, named.host)).dataplane).not.toBe(named.host.dataplane);
  });
});
