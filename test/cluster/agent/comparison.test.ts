/** An address that was released beside a running pod, in the blocks of a real API server. */

import { decodeNetworkConfig } from "../../../lib/config/decode.ts";
import { Hosts } from "../../../main-plugin/hosts.ts";
import { shared } from "../../support/fixtures.ts";
import { ApiServerNode } from "../../support/kubernetes/api-server-node.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";

const NAMES = ["lost", "kept"];

const cluster = shared(startCluster);

describe("An agent whose addresses are in blocks of an API server", () => {
  it("G21: reports the address of a running pod that was released, and not another pod's", async () => {
    await using world = await ApiServerNode.create(cluster, { pools: ["10.67.0.0/24"], pods: NAMES });
    world.node.excuse("the address is released while its pod runs", "not-granted");
    await using agent = await world.startAgent(["--max-controller-interval", "1"]);
    const addresses = new Map<string, string>();
    for (const pod of NAMES) {
      const { ips } = await world.add({ ...(await world.callOf(pod)), conf: agent.netconf });
      addresses.set(pod, ips[0]?.address.split("/")[0] ?? "");
    }
    const findings = async () => {
      const { findings: found } = (await agent.request("GET", "/healthz")).json as { findings: string[] };
      return found.filter((finding) => finding.startsWith("address-"));
    };

    await using hosts = new Hosts({ log: { error: () => undefined } });
    const config = decodeNetworkConfig({
      name: "net1",
      datastore_type: "kubernetes",
      kubernetes: { kubeconfig: await cluster.kubeconfigFor("agent") },
    });
    const { allocator, datastore } = await hosts.of(config, {}).ipam();
    const handle = (await datastore.handles.list()).find(({ value: { id } }) => id.endsWith(".c-lost"))?.value.id ?? "";
    expect((await allocator.releaseByHandle(handle)).released).toHaveLength(1);
    await agent.until("the finding", async () => (await findings()).length > 0);

    expect(await findings()).toEqual([
      expect.stringMatching(`^address-lost: ${addresses.get("lost")} of endpoint \\d+ \\(pod test/lost, `),
    ]);
    expect((await agent.request("GET", "/metrics")).text).toMatch(/tortie_sweep_findings_total\{kind="address-lost"\} [1-9]/);
  });
});
