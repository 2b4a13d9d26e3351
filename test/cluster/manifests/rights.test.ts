/**
 * Rights against the audit log of a real API server, over the life of a pod: what the programs ask for with their own accounts is granted,
 * and what is granted is asked for, or stands here with its reason. In Calico's groups the plugins' rights are one rule, which is Calico's own
 * (C§8.2).
 */
import { resolve } from "node:path";
import { renderFolder } from "../../../scripts/manifests/kustomization.ts";
import { shared } from "../../support/fixtures.ts";
import { ApiServerNode, NAMESPACE } from "../../support/kubernetes/api-server-node.ts";
import { agentAccess, apiObjects, pluginAccess } from "../../support/kubernetes/manifests.ts";
import { granted, usedBy } from "../../support/kubernetes/rights.ts";
import { startCluster } from "../../support/kubernetes/test-cluster.ts";

const cluster = shared(startCluster);

const OUTSIDE_OF_CALICO = /^(|tortie\.dev|kubevirt\.io)$/;

describe("the plugins' account", () => {
  it("has every right that the life of pods needs, and outside of Calico's groups needs what it has", async () => {
    await using node = await ApiServerNode.create(cluster, { pools: ["10.60.0.0/26"] });
    const since = await cluster.mark();
    await node.pod("pod");
    await node.add();
    await node.del();

    const { used, refused } = await usedBy(cluster, "calico-cni-plugin", since);

    expect(refused).toEqual([]);
    const rights = granted(pluginAccess());
    expect([...used].filter((right) => !rights.has(right))).toEqual([]);
    // KubeVirt's pods, which this one is not, need the rest.
    expect([...granted(pluginAccess(), OUTSIDE_OF_CALICO)].filter((right) => !used.has(right))).toEqual([
      "get virtualmachineinstances",
      "get virtualmachines",
    ]);
  });
});

/** What the agent may do and the lives below do not need. */
const ELSEWHERE = new Set([
  // In place of a watch that has no answer yet, and for calls whose network configuration brings no kubeconfig of its own.
  "get pods",
  "get nodes",
  "get namespaces",
  // Pools, reservations and the configuration are lists and watches; one rule for what is read only.
  "get ippools",
  "get ipreservations",
  // Only the legacy group has the other kind, and a look that asks for one that is not copied.
  "list ipamconfigurations",
  "watch ipamconfigurations",
  "get ipamconfigurations",
  // Addresses for other nodes' tunnels, of pools that want one; and below, ranges.
  "patch nodes/status",
  // Dropped packets and invalid policies.
  "create events",
  "patch events",
  // An object that is there already, or changes.
  "get tortieendpoints",
  "patch tortieendpoints",
  "patch tortieendpoints/status",
  // KubeVirt.
  "get virtualmachineinstances",
  "get virtualmachines",
  // Copies that are old, claims of two nodes at once, and blocks that are given up: test/cluster/ipam-plugin.
  "get blockaffinities",
  "delete blockaffinities",
  "delete ipamblocks",
  "get ipamhandles",
  // GC, and a handle of several addresses of which one stays.
  "list ipamhandles",
  "update ipamhandles",
]);

describe("the agent's account", () => {
  it("S5: has every right that the life of pods needs, and needs what it has", async () => {
    await using node = await ApiServerNode.create(cluster);
    const since = await cluster.mark();
    await using agent = await node.startAgent(["--endpoint-objects", "--node-routes=vxlan"]);
    await node.pool("pool4", "10.60.0.0/26");
    await node.pod("pod");
    const conf = { ...agent.netconf, kubernetes: { kubeconfig: await cluster.kubeconfigFor("agent") } };
    await node.add({ conf });
    const object = () => cluster.get("tortie.dev/v1alpha1", "tortieendpoints", "pod", NAMESPACE);
    await agent.until("the object", async () => (await object()) !== undefined);
    await node.del({ conf });
    await agent.until("the end of the object", async () => (await object()) === undefined);
    // A watch is in the audit log when it ends.
    await agent.stop();

    const { used, refused } = await usedBy(cluster, "tortie-node", since);

    expect(refused).toEqual([]);
    const rights = granted(agentAccess());
    expect([...used].filter((right) => !rights.has(right))).toEqual([]);
    expect([...rights].filter((right) => !used.has(right) && !ELSEWHERE.has(right))).toEqual([]);
  });
});

/** The configuration decides about blocks, and is watched for calls of other networks. */
const OF_HOST_SCOPE = new Set([...ELSEWHERE, "get ipamconfigs"]);

describe("the accounts of the overlay host-scope", () => {
  it("S5: have no right to blocks, affinities and handles, and need none", async () => {
    await using own = await startCluster({ own: true });
    const roles = apiObjects(renderFolder(resolve("manifests/overlays/host-scope"))).filter(({ kind }) => kind === "ClusterRole");
    const [agentRole, pluginRole] = ["tortie-node", "calico-cni-plugin"].map((name) =>
      roles.filter(({ metadata }) => metadata.name === name),
    );
    for (const role of roles) await own.apply(role);
    for (const role of [agentRole, pluginRole])
      expect([...granted(role ?? [])].filter((right) => /ipamblocks|blockaffinities|ipamhandles/.test(right))).toEqual([]);
    await using node = await ApiServerNode.create(own);
    await node.podCidrs("10.60.1.0/24");
    const since = await own.mark();
    const flags = ["--ipam=host-scope", "--require-ipv4-pod-cidr", "--node-routes=vxlan", "--endpoint-objects"];
    await using agent = await node.startAgent(flags);
    await node.pod("pod");
    const conf = { ...agent.netconf, ipam: { type: "tortie-host-scope" } };
    await node.add({ conf });
    await node.del({ conf });
    const kubernetes = { kubeconfig: await own.kubeconfigFor("agent") };
    await node.add({ conf: { ...conf, kubernetes } });
    await node.del({ conf: { ...conf, kubernetes } });
    await agent.stop();

    const [ofAgent, ofPlugins] = [await usedBy(own, "tortie-node", since), await usedBy(own, "calico-cni-plugin", since)];

    expect([...ofAgent.refused, ...ofPlugins.refused]).toEqual([]);
    expect([...granted(agentRole ?? [])].filter((right) => !ofAgent.used.has(right) && !OF_HOST_SCOPE.has(right))).toEqual([]);
    expect(ofAgent.used).toContain("patch nodes/status");
  });
});
