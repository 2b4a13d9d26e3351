/** F2: a pod's address is free only when nobody reads of it any more: link, then annotations, then address. */
import { fresh, shared } from "../../support/fixtures.ts";
import { ApiServerNode, NAMESPACE } from "../../support/kubernetes/api-server-node.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";

const cluster = shared(startCluster);
const proxy = shared(() => cluster.proxy());

async function added(): Promise<ApiServerNode> {
  proxy.clear();
  const node = await ApiServerNode.create(cluster, { via: proxy, pools: ["10.60.0.0/26"], pods: ["pod"] });
  await node.add();
  proxy.clear();
  return node;
}

/** As a server whose administrator took the rights to `pods/status` away. */
function refusePatches(): void {
  proxy.on({ method: "PATCH", times: Number.POSITIVE_INFINITY }, { kind: "answer", status: 403, message: "no patches today" });
}

const COLLECT = { container: "", conf: { cniVersion: "1.1.0", "cni.dev/valid-attachments": [] } };

const node = fresh(added);

describe("DEL of a pod", () => {
  it("F2: takes its link, then its announcement, then its address", async () => {
    const seen: unknown[] = [];
    proxy.on(
      { method: "PATCH" },
      { kind: "before", action: async () => seen.push([await node.node.leftovers(), Object.keys(await node.held())]) },
    );
    proxy.on({ method: "PUT", path: "ipamblocks" }, { kind: "before", action: async () => seen.push((await node.annotations()).podIPs) });

    await node.del();

    expect(seen).toEqual([[{ links: [], routes: [] }, ["net1.c1"]], ""]);
    await node.expectNothingLeft("pod");
  });

  it.each([
    ["DEL", {}],
    ["GC", COLLECT],
  ])("F2, R5: by %s keeps the address while the pod announces it, and says why", async (command, call) => {
    const announced = await node.annotations();
    refusePatches();

    expect(await node.refusal(command, call)).toContain("no patches today");

    await node.node.expectClean();
    expect(Object.keys(await node.held())).toEqual(["net1.c1"]);
    expect(await node.annotations()).toEqual(announced);

    proxy.clear();
    expect(await node.call(command, call)).toMatchObject({ exit: 0 });
    await node.expectNothingLeft("pod");
  });

  it("F2: releases the address of a pod that is gone, and of one that is another container's by now", async () => {
    await cluster.remove("v1", "pods", "pod", NAMESPACE);
    await node.del();
    await node.expectNothingLeft();

    await node.pod("pod");
    await node.add();
    const newer = { "cni.projectcalico.org/containerID": "newer", "cni.projectcalico.org/podIPs": "10.60.0.9/32" };
    await node.pod("pod", { annotations: newer });
    await node.del();
    await node.expectNothingLeft();
    expect(await node.annotations()).toMatchObject({ containerID: "newer", podIPs: "10.60.0.9/32" });
  });
});
