import { kubernetesDatastore } from "../../../../../lib/datastore/kubernetes/kubernetes-datastore.ts";
import { type Exchange, ScriptedClient } from "../../../../support/scripted-api-client.ts";

const GET = "GET /api/v1/namespaces/shop/pods/cart";
const POD = { metadata: { namespace: "shop", name: "cart", uid: "u1", resourceVersion: "5" }, spec: { nodeName: "node1" }, status: {} };

function endpoints(...script: readonly Exchange[]) {
  return kubernetesDatastore(new ScriptedClient(...script), { group: "projectcalico.org/v3" }).endpoints;
}

describe("an endpoint that is a pod", () => {
  it("is got by its whole name, and not by a beginning or a continuation of it", async () => {
    const found = await endpoints([GET, POD]).get({ namespace: "shop", name: "node1-k8s-cart-eth0" });
    expect(found?.value).toMatchObject({ namespace: "shop", name: "node1-k8s-cart-eth0", pod: "cart" });
    for (const name of ["node1-k8s-cart", "node1-k8s-cart-", "node1-k8s-cart-eth", "node1-k8s-cart-eth00"]) {
      expect(await endpoints([GET, POD]).get({ namespace: "shop", name })).toBeUndefined();
    }
  });
});
