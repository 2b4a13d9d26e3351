/** Many calls at once in one process on one Node, on a real API server. */
import { shared } from "../../support/fixtures.ts";
import { ApiServerNode, NAMESPACE } from "../../support/kubernetes/api-server-node.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";
import { descriptors, hostEnds, OneProcess } from "../../support/one-process.ts";

const CALLS = 100;
const firstHalf = Array.from({ length: CALLS }, (_, i) => i);
const secondHalf = Array.from({ length: CALLS }, (_, i) => CALLS + i);
const podName = (index: number) => `pod${index}`;

const cluster = shared(startCluster);

describe(`${2 * CALLS} ADDs and DELs at once in one process`, () => {
  it("give every pod an address of its own, and leave nothing behind", async () => {
    await using world = await ApiServerNode.create(cluster, { pools: ["10.66.0.0/22"] });
    const names = [...firstHalf, ...secondHalf].map(podName);
    for (const name of names) await world.pod(name);
    using calls = new OneProcess(
      2 * CALLS,
      () => ({
        cniVersion: "1.0.0",
        name: "net1",
        type: "calico",
        datastore_type: "kubernetes",
        calico_api_group: world.group,
        nodename: world.name,
        nodename_file_optional: true,
        ipam: { type: "calico-ipam" },
        policy: { type: "k8s" },
        kubernetes: { kubeconfig: world.kubeconfig },
        // 5 requests a second, which is the default, are for one call at a time.
        qps: -1,
      }),
      (index) => `K8S_POD_NAME=${podName(index)};K8S_POD_NAMESPACE=${NAMESPACE}`,
    );
    {
      await using warm = calls.host();
      await calls.add(0, warm);
      await calls.del(0, warm);
    }
    const before = await descriptors();
    {
      await using host = calls.host();
      const first = await Promise.all(firstHalf.map((index) => calls.add(index, host)));

      // The first half goes while the second half comes.
      const [second] = await Promise.all([
        Promise.all(secondHalf.map((index) => calls.add(index, host))),
        Promise.all(firstHalf.map((index) => calls.del(index, host))),
      ]);
      expect(new Set(first.flat()).size).toBe(CALLS);
      expect(new Set(second.flat()).size).toBe(CALLS);
      expect(hostEnds()).toHaveLength(CALLS);
      for (const [index, addresses] of second.entries()) {
        expect((await world.annotations(podName(CALLS + index))).podIPs).toBe(addresses.join(","));
      }

      await Promise.all(secondHalf.map((index) => calls.del(index, host)));
    }
    expect(hostEnds()).toEqual([]);
    expect(await world.held()).toEqual({});
    expect(await descriptors()).toBe(before);
  });
});
