import { ApiCore } from "../../../../../lib/datastore/kubernetes/api-core.ts";
import { type Exchange, ScriptedClient } from "../../../../support/scripted-api-client.ts";

const POD = { namespace: "shop", name: "cart" };
const PATH = "/api/v1/namespaces/shop/pods/cart";
const stored = { metadata: { ...POD, uid: "u1", resourceVersion: "5" }, spec: { nodeName: "node1" }, status: {} };

function core(...script: readonly Exchange[]) {
  const client = new ScriptedClient(...script);
  return { client, core: new ApiCore(client) };
}

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

  it.each([
    ["namespace", { ...POD, namespace: "shop/../kube-system" }],
    ["name", { ...POD, name: "cart?watch=1" }],
  ])("of a pod whose %s no object can have is nothing, without a request", async (_, key) => {
    expect(await core().core.pod(key)).toBeUndefined();
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
