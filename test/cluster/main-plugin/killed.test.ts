/** A plugin that is killed half-way: the next operation of its container takes away what it left (design, invariant 5). */
import { fresh, shared } from "../../support/fixtures.ts";
import { ApiServerNode } from "../../support/kubernetes/api-server-node.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";

const cluster = shared(startCluster);

/** A node whose first ADD hangs at the given request until it is killed. */
async function killedAt(method: string): Promise<ApiServerNode> {
  const proxy = await cluster.proxy();
  const node = await ApiServerNode.create(cluster, { via: proxy, pools: ["10.60.0.0/26"], pods: ["other"] });
  await node.add(await node.callOf("other", "other"));
  await node.del(await node.callOf("other", "other"));
  await node.pod("pod");
  proxy.on({ method }, { kind: "hang" });
  expect(await node.call("ADD", { timeoutMs: 1500 })).toMatchObject({ exit: null, signal: "SIGKILL" });
  proxy.clear();
  return node;
}

describe.each(["PUT", "PATCH"])("An ADD that was killed at its %s", (method) => {
  const node = fresh(() => killedAt(method));

  it("is undone by the DEL of its container", async () => {
    await node.del();
    await node.expectNothingLeft("pod");
  });

  it("is undone by the next ADD of its container", async () => {
    const { ips } = await node.add();
    expect((await node.held())["net1.c1"]).toHaveLength(1);
    expect(await node.podAddresses()).toEqual([ips[0]?.address]);
    await node.del();
    await node.expectNothingLeft("pod");
  });

  it("is undone by GC", async () => {
    const conf = { cniVersion: "1.1.0", "cni.dev/valid-attachments": [] };
    expect(await node.call("GC", { container: "", conf })).toMatchObject({ exit: 0, stdout: "" });
    await node.expectNothingLeft("pod");
  });
});
