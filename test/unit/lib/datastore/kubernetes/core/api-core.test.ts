import { ApiCore } from "../../../../../../lib/datastore/kubernetes/core/api-core.ts";
import { type Exchange, ScriptedClient } from "../../../../../support/scripted-api-client.ts";

const POD = { namespace: "shop", name: "cart" };
const PATH = "/api/v1/namespaces/shop/pods/cart";
const STATUS = `PATCH ${PATH}/status`;
const stored = { metadata: { ...POD, uid: "u1", resourceVersion: "5" }, spec: { nodeName: "node1" }, status: {} };

function core(...script: readonly Exchange[]) {
  const client = new ScriptedClient(...script);
  return { client, core: new ApiCore(client) };
}

describe("announcing a pod", () => {
  it("carries the uid, so that the server refuses it for another pod of the name", async () => {
    const { client, core: kubernetes } = core([STATUS, stored]);
    await kubernetes.announce({ ...POD, uid: "u1" }, { containerID: "c1", ipNetworks: ["10.60.0.1/32"] });
    expect(client.asked[0]?.contentType).toBe("application/strategic-merge-patch+json");
    expect(client.sent(0)).toEqual({
      metadata: {
        uid: "u1",
        annotations: {
          "cni.projectcalico.org/containerID": "c1",
          "cni.projectcalico.org/podIP": "10.60.0.1/32",
          "cni.projectcalico.org/podIPs": "10.60.0.1/32",
        },
      },
    });
  });

  const cause = (field: string) => ({ reason: "FieldValueInvalid", field, message: "field is immutable" });

  it.each([
    ["another pod's", { status: 422, reason: "Invalid", causes: [cause("metadata.uid"), cause("metadata.uid")] }, "not-found"],
    ["nobody's", { status: 404, reason: "NotFound" }, "not-found"],
    ["one with an impossible annotation", { status: 422, reason: "Invalid", causes: [cause("metadata.annotations")] }, "invalid"],
    ["one that changes too fast", { status: 409, reason: "Conflict" }, "conflict"],
    ["not to be written", { status: 403, reason: "Forbidden" }, "unauthorized"],
  ])("that is %s fails and says so", async (_, answer, failure) => {
    const announcement = { containerID: "c1", ipNetworks: [] };
    await expect(core([STATUS, answer]).core.announce({ ...POD, uid: "u1" }, announcement)).rejects.toMatchObject({ failure });
  });
});

describe("withdrawing a pod's addresses", () => {
  it("is one patch, which the server carries out for this container only", async () => {
    const { client, core: kubernetes } = core([STATUS, stored]);
    expect(await kubernetes.withdraw(POD, "c1")).toBe("withdrawn");
    expect(client.asked[0]?.contentType).toBe("application/json-patch+json");
    expect(client.sent(0)).toEqual([
      { op: "test", path: "/metadata/annotations/cni.projectcalico.org~1containerID", value: "c1" },
      { op: "add", path: "/metadata/annotations/cni.projectcalico.org~1podIP", value: "" },
      { op: "add", path: "/metadata/annotations/cni.projectcalico.org~1podIPs", value: "" },
    ]);
  });

  it("comes to nothing for another container's pod and for none", async () => {
    expect(await core([STATUS, { status: 422, reason: "Invalid" }]).core.withdraw(POD, "c1")).toBe("not-ours");
    expect(await core([STATUS, { status: 404, reason: "NotFound" }]).core.withdraw(POD, "c1")).toBe("missing");
  });

  it("does not take every refusal for another container", async () => {
    const causes = [{ reason: "FieldValueInvalid", field: "metadata.annotations", message: "too long" }];
    const attempt = core([STATUS, { status: 422, reason: "Invalid", causes }]).core.withdraw(POD, "c1");
    await expect(attempt).rejects.toMatchObject({ failure: "invalid" });
    await expect(core([STATUS, { status: 503 }]).core.withdraw(POD, "c1")).rejects.toMatchObject({ failure: "unavailable" });
  });
});

describe("what is read", () => {
  it("of a pod is read afresh every time, of a namespace and a node once", async () => {
    const other = { ...stored, metadata: { ...stored.metadata, resourceVersion: "6" } };
    const namespace = { metadata: { name: "shop", uid: "u2", resourceVersion: "1", labels: { team: "shop" } } };
    const node = { metadata: { name: "node1", uid: "u3", resourceVersion: "2" }, spec: {} };
    const { client, core: kubernetes } = core(
      [`GET ${PATH}`, stored],
      [`GET ${PATH}`, other],
      ["GET /api/v1/namespaces/shop", namespace],
      ["GET /api/v1/nodes/node1", node],
    );
    expect((await kubernetes.pod(POD))?.resourceVersion).toBe("5");
    expect((await kubernetes.pod(POD))?.resourceVersion).toBe("6");
    const both = await Promise.all([kubernetes.namespace("shop"), kubernetes.namespace("shop")]);
    expect(both).toEqual([{ name: "shop", labels: { team: "shop" }, annotations: {} }, both[0]]);
    expect(await kubernetes.versionedNamespace("shop")).toMatchObject({ revision: "u2/1" });
    expect(await kubernetes.node("node1")).toEqual(await kubernetes.node("node1"));
    expect(client.left).toEqual([]);
  });

  it("of a namespace that is missing is not asked for again, what failed is", async () => {
    const { client, core: kubernetes } = core(
      ["GET /api/v1/namespaces/shop", { status: 404 }],
      ["GET /api/v1/nodes/node1", { status: 500 }],
      ["GET /api/v1/nodes/node1", { status: 404 }],
    );
    expect(await kubernetes.namespace("shop")).toBeUndefined();
    expect(await kubernetes.namespace("shop")).toBeUndefined();
    await expect(kubernetes.node("node1")).rejects.toMatchObject({
      failure: "unavailable",
      message: expect.stringContaining("Node(node1)"),
    });
    expect(await kubernetes.node("node1")).toBeUndefined();
    expect(client.left).toEqual([]);
  });

  it.each([["<html>"], [{ metadata: {} }], [{ ...stored, spec: 7 }], [{ ...stored, metadata: { ...stored.metadata, labels: { a: 1 } } }]])(
    "as %p is refused, naming the object",
    async (answer) => {
      await expect(core([`GET ${PATH}`, answer]).core.pod(POD)).rejects.toMatchObject({
        failure: "invalid",
        message: expect.stringContaining("Pod(shop/cart) cannot be read"),
      });
    },
  );
});

describe("the version of the server", () => {
  it("is asked for within the given time", async () => {
    const { client, core: kubernetes } = core(["GET /version", { gitVersion: "v1.34.4" }]);
    expect(await kubernetes.serverVersion(700)).toBe("v1.34.4");
    expect(client.asked[0]?.timeoutMs).toBe(700);
  });

  it("that nobody tells is a failure of the datastore", async () => {
    await expect(core(["GET /version", { status: 0 }]).core.serverVersion(700)).rejects.toMatchObject({ failure: "unavailable" });
  });
});
