/** R1: the first ADD of a certain address since the boot, which looks at the labels of the node's affinities, while the server goes away. */
import { existsSync, rmSync } from "node:fs";
import { shared } from "../../../support/fixtures.ts";
import { ApiServerNode, type PodCall } from "../../../support/kubernetes/api-server-node.ts";
import { startCluster } from "../../../support/kubernetes/test-cluster.ts";
import type { CniRun } from "../../../support/node.ts";
import { Way } from "./way.ts";

/** Calico's, too: the labels were looked at since the boot. */
const MARKER = "/var/run/calico/cni/ipam_upgraded";

const cluster = shared(startCluster);

describe("R1: an ADD of a certain address whose server goes away before the labels are looked at", () => {
  it("fails when the client has tried, and keeps no other ADD of the node waiting", async () => {
    rmSync(MARKER, { force: true });
    await using node = await ApiServerNode.create(cluster, { pools: ["10.60.0.0/26"], pods: ["pod", "next"] });
    const way = await Way.open(node);
    const ip = { args: ";IP=10.60.0.9" };
    const next: PodCall = { ...(await node.callOf("next", "c2")), conf: { ipam_lock_timeout_seconds: 30 } };
    let waiting: Promise<CniRun> | undefined;
    way.proxy.on(
      { path: "blockaffinities" },
      {
        kind: "before",
        action: async () => {
          // The lock of the node is already held.
          waiting = node.call("ADD", next);
          await way.close();
          way.proxy.breakConnections();
        },
      },
    );

    const message = await node.refusal("ADD", { ...ip, conf: { kubernetes: { kubeconfig: way.kubeconfig } } });

    expect(message).toMatch(/^failed to upgrade IPAM database: .*connection refused/);
    expect(existsSync(MARKER)).toBe(false);
    expect(await waiting).toMatchObject({ exit: 0 });
    expect(Object.keys(await node.held())).toEqual(["net1.c2"]);

    expect((await node.add(ip)).ips[0]?.address).toBe("10.60.0.9/32");
    expect(existsSync(MARKER)).toBe(true);
  });
});
