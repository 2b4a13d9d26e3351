/** What nodes that are gone leave beside addresses: annotations of pods that have ended, and objects of endpoints. */

import type { JsonObject } from "../../../../lib/json/value.ts";
import { ApiError } from "../../../../lib/kubernetes/api-client.ts";
import { ControllerWorld, NAMESPACE } from "../../../support/controller-world.ts";
import { fresh } from "../../../support/fixtures.ts";

const POD_IP = "cni.projectcalico.org/podIP";
const OBJECTS = `/apis/tortie.dev/v1alpha1/namespaces/${NAMESPACE}/tortieendpoints`;

function podIpOf(world: ControllerWorld, name: string): unknown {
  const annotations = Object.entries(Object(Object(world.pod(name)).metadata).annotations ?? {});
  return Object.fromEntries(annotations)[POD_IP];
}

/** With a pod on node2, whose address Calico's kube-controllers is to release: that does not concern annotations. */
function withPod(facts: Parameters<ControllerWorld["addPod"]>[1]): ControllerWorld {
  const world = new ControllerWorld({ "calico-kube-controllers": "present" });
  world.addPod("web", { node: "node2", containerId: "c1", annotations: { [POD_IP]: "10.60.0.1/32" }, ...facts });
  return world;
}

describe("The annotations of a pod", () => {
  it("that has ended on a node that is gone are blanked after five minutes, and told", async () => {
    const world = withPod({ phase: "Failed" });
    await world.minutes(10);
    expect(podIpOf(world, "web")).toBe("10.60.0.1/32");
    world.removeNode("node2");
    await world.minutes(5);
    expect(podIpOf(world, "web")).toBe("10.60.0.1/32");
    await world.minutes(1);
    expect(podIpOf(world, "web")).toBe("");
    const told = [`blanked the addresses of pod ${NAMESPACE}/web, which has ended: node node2 is gone`];
    expect(world.log).toEqual(told);
    await world.minutes(10);
    expect(world.log).toEqual(told);
  });

  it.each<[string, Parameters<ControllerWorld["addPod"]>[1]]>([
    ["that has not ended", { phase: "Running" }],
    ["that is on no node", { phase: "Failed", node: "" }],
    ["that no ADD has written", { phase: "Failed", containerId: "" }],
    ["on a node that exists", { phase: "Failed", node: "node1" }],
  ])("%s stay as they are", async (_which, facts) => {
    const world = withPod(facts);
    world.removeNode("node2");
    await world.minutes(20);
    expect(podIpOf(world, "web")).toBe("10.60.0.1/32");
    expect(world.context.observed.pod.size).toBe(0);
  });

  it("stay when the server itself has the node, or says that the pod has not ended or is another's", async () => {
    const item = `annotations pod ${NAMESPACE}/web`;
    const world = withPod({ phase: "Failed" });
    world.removeNode("node2");
    await world.minutes(4);
    await world.work(item);
    await world.clock.advance(300_000);
    world.addNode("node2");
    await world.work(item);
    world.removeNode("node2");
    world.addPod("web", { node: "node2", containerId: "c1", phase: "Running", annotations: { [POD_IP]: "10.60.0.1/32" } });
    await world.work(item);
    world.addPod("web", { node: "node2", containerId: "c2", phase: "Failed", annotations: { [POD_IP]: "10.60.0.1/32" } });
    await world.work(item);
    expect(podIpOf(world, "web")).toBe("10.60.0.1/32");
    world.removePod("web");
    await world.work(item);
    expect(world.log).toEqual([]);
  });

  it("are not judged while the lists are not complete", async () => {
    const world = withPod({ phase: "Failed" });
    world.api.followedSince = undefined;
    await expect(world.work(`annotations pod ${NAMESPACE}/web`)).rejects.toThrow("are not complete");
  });
});

describe("The object of an endpoint", () => {
  const world = fresh(() => new ControllerWorld());
  const putObject = (spec: JsonObject) => world.api.put(`${OBJECTS}/web`, { spec });
  beforeEach(() => putObject({ node: "node2" }));

  const isThere = () => world.api.get(`${OBJECTS}/web`) !== undefined;

  it("of a node that is gone is deleted after five minutes, and told", async () => {
    await world.minutes(10);
    world.removeNode("node2");
    await world.minutes(5);
    expect(isThere()).toBe(true);
    await world.minutes(1);
    expect(isThere()).toBe(false);
    expect(world.log).toEqual([`deleted TortieEndpoint ${NAMESPACE}/web: node node2 is gone`]);
  });

  it("stays while its pod is there and may come back with its node, and goes when the pod is elsewhere or has ended", async () => {
    for (const facts of [{ node: "node1" }, { node: "node2", phase: "Succeeded" }]) {
      world.addNode("node2");
      putObject({ node: "node2" });
      world.addPod("web", { node: "node2" });
      world.removeNode("node2");
      await world.minutes(20);
      expect(isThere()).toBe(true);
      world.addPod("web", facts);
      await world.minutes(6);
      expect(isThere()).toBe(false);
    }
  });

  it("of no node, or of one that exists, stays", async () => {
    for (const node of ["", "node1"]) {
      putObject({ node });
      world.removeNode("node2");
      await world.minutes(20);
      expect(isThere()).toBe(true);
    }
  });

  it("that an agent has written since is another observation, and one that is not confirmed stays", async () => {
    const item = `endpoint-objects object ${NAMESPACE}/web`;
    world.removeNode("node2");
    await world.minutes(5);
    await world.work(item);
    putObject({ node: "node2", generation: 2 });
    await world.minutes(5);
    expect(isThere()).toBe(true);
    await world.minutes(1);
    expect(isThere()).toBe(false);
    await world.work(item);
  });

  it("stays when the server itself has the node", async () => {
    world.removeNode("node2");
    world.api.before = ({ path }) => {
      if (path.endsWith("/nodes/node2")) world.addNode("node2");
    };
    await world.minutes(10);
    expect(isThere()).toBe(true);
  });

  it.each([
    [404, undefined],
    [409, undefined],
    [403, "arranged"],
  ])("that cannot be deleted with status %i: the message is %p", async (status, message) => {
    world.removeNode("node2");
    world.api.before = ({ method }) => {
      if (method === "DELETE") throw new ApiError("arranged", { status });
    };
    const failed = await world.minutes(7).catch(({ message }: Error) => message);
    expect([failed, world.log]).toEqual([message, []]);
  });

  it("is not judged while the lists are not complete", async () => {
    world.api.followedSince = undefined;
    await expect(world.work(`endpoint-objects object ${NAMESPACE}/web`)).rejects.toThrow("are not complete");
  });
});
