/** A machine whose addresses are in a server's store is judged by that store when its test is over (test/support/judge). */
import { shared } from "../../support/fixtures.ts";
import { BOTH_STORES, PodStores } from "../../support/kubernetes/pod-stores.ts";

const stores = shared(PodStores.start);

describe.each(BOTH_STORES)("A machine with addresses of %s", (store) => {
  it("passes with a pod that runs, and fails its test when the address of one was released meanwhile", async () => {
    const calm = await stores.node(store, { pools: ["10.60.0.0/24"], pods: ["pod"] });
    await calm.add();
    await calm[Symbol.asyncDispose]();

    const node = await stores.node(store, { pools: ["10.60.0.0/24"], pods: ["pod"] });
    await node.add();
    const args = "K8S_POD_NAME=pod;K8S_POD_NAMESPACE=test";
    const released = await node.node.cni("DEL", { plugin: "calico-ipam", containerId: "c1", args, conf: node.conf() });
    expect(released).toMatchObject({ exit: 0 });
    await expect(node[Symbol.asyncDispose]()).rejects.toThrow(/not-granted: \S+ eth0 of net1\.c1 bears 10\.60\.0\.\d+, granted to nobody/);
  });
});
